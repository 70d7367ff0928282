//! This end of a reversed connection: it listens, the far end connects.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use anyhow::{Context, Result, anyhow};
use mover::server::{Listener, Port};

use super::OFFERED_MAX;
use super::command::real_name;
use crate::action::SshEnd;
use crate::args::location::HostPort;
use crate::args::value::Ports;
use crate::reach::address::{self, Families};

/// Connections that wait to be accepted.
const BACKLOG: u16 = 128;

/// This end, where it is the one that is connected to.
pub(super) struct Ours {
    /// What listens.
    pub(super) listener: Listener,
    /// Where it can be reached, the likeliest first.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Ours {
    /// Takes a port and makes an identity that lives as long as this process.
    ///
    /// # Errors
    /// When no port is free.
    pub(super) async fn bind(end: &SshEnd, families: Families) -> Result<Ours> {
        let identity = service::ephemeral(&sys::process::hostname())?;
        let socket = bind_one_of(end.settings.ports)?;
        let port = socket.local_addr().context("cannot find the port that was taken")?.port();
        let far = address::of_host(&HostPort { host: real_name(end).await, port }, families).await.unwrap_or_default();
        let mut ips: Vec<IpAddr> = far.into_iter().filter_map(towards).collect();
        let all = sys::socket::interfaces().context("cannot list the addresses of this host")?;
        ips.extend(all.into_iter().map(|(_, ip)| ip).filter(is_usable));
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in ips.into_iter().map(|ip| SocketAddr::new(ip.to_canonical(), port)) {
            if !addresses.contains(&address) && addresses.len() < OFFERED_MAX {
                addresses.push(address);
            }
        }
        Ok(Ours { listener: Listener { port: Port::Own(socket), identity }, addresses })
    }
}

/// Whether another host may be able to use it; a link-local address is of no use without its interface.
fn is_usable(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    }
}

/// The address of this host that packets to `far` would carry; nothing is sent.
fn towards(far: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if far.is_ipv4() { [0, 0, 0, 0].into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(far).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Listens on the first free port of the range, over IPv6 and IPv4 or, without IPv6, IPv4 alone.
fn bind_one_of(ports: Option<Ports>) -> Result<TcpListener> {
    let range = ports.map_or(0..=0, |ports| ports.low..=ports.high);
    let both = |port| listen((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|_| listen(([0, 0, 0, 0], port).into()));
    let mut refused = None;
    for port in range {
        match both(port) {
            Ok(socket) => return Ok(socket),
            Err(error) => refused = Some(error),
        }
    }
    let why = refused.map_or_else(|| anyhow!("there is no port in it"), anyhow::Error::from);
    Err(why.context(ports.map_or_else(|| "cannot listen".to_owned(), |ports| format!("no port of {ports} is free"))))
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    Ok(sys::socket::listen(address, BACKLOG, |_| Ok(()))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_the_range_is_taken_while_one_is_free() {
        let taken = bind_one_of(None).unwrap();
        let port = taken.local_addr().unwrap().port();
        let text = format!("{:#}", bind_one_of(Some(Ports { low: port, high: port })).unwrap_err());
        assert!(text.starts_with(&format!("no port of {port}-{port} is free")), "{text}");
    }
}
