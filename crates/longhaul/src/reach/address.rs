//! Names to addresses.
//!
//! The mover spreads streams over all addresses it is given, so they must all be the same agent's. Several
//! hosts after `lh://` are; several addresses behind one name need not be (a name may stand for a pool). So of
//! each name one address is taken: the first that answers, as in RFC 8305.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;

use crate::args::location::{Agent, HostPort};

/// After this the next address is tried beside (RFC 8305, section 8).
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// After this an address does not answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Addresses of one name that are tried.
const TRIED_MAX: usize = 16;

/// Address families that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Families {
    /// IPv4.
    pub(crate) v4: bool,
    /// IPv6.
    pub(crate) v6: bool,
}

impl Families {
    /// Those of the addresses that are connected from; all where nothing is bound.
    pub(crate) fn of(bind: &[IpAddr]) -> Families {
        Families {
            v4: bind.is_empty() || bind.iter().any(IpAddr::is_ipv4),
            v6: bind.is_empty() || bind.iter().any(IpAddr::is_ipv6),
        }
    }

    fn has(self, address: &SocketAddr) -> bool {
        if address.is_ipv4() { self.v4 } else { self.v6 }
    }
}

/// One address for each host of the agent.
///
/// # Errors
/// When a name has none.
pub(crate) async fn of_agent(agent: &Agent, families: Families) -> Result<Vec<SocketAddr>> {
    let mut chosen = Vec::new();
    for host in &agent.hosts {
        let found = of_host(host, families).await?;
        match found.as_slice() {
            [only] => chosen.push(*only),
            // If none answers, the mover tries them all and says what happened.
            several => match first_to_answer(several).await {
                Ok(first) => chosen.push(first),
                Err(_) => chosen.extend_from_slice(several),
            },
        }
    }
    Ok(chosen)
}

/// All addresses of a name, in the system's order.
///
/// # Errors
/// When it has none that may be used.
pub(crate) async fn of_host(host: &HostPort, families: Families) -> Result<Vec<SocketAddr>> {
    let found = lookup_host((host.host.as_str(), host.port))
        .await
        .with_context(|| format!("cannot find the address of {}", host.host))?;
    let mut usable: Vec<SocketAddr> = found.filter(|address| families.has(address)).take(TRIED_MAX).collect();
    usable.dedup();
    if usable.is_empty() {
        bail!("{} has no address of the same family as --bind", host.host);
    }
    Ok(usable)
}

/// The first address that takes a connection. Each next one is tried a little later, or when one refused.
///
/// # Errors
/// When none does; the error is that of the last.
pub(crate) async fn first_to_answer(addresses: &[SocketAddr]) -> Result<SocketAddr> {
    let mut left = addresses.iter().copied();
    let mut trying = JoinSet::new();
    let mut refused = None;
    loop {
        let next = left.next();
        if let Some(address) = next {
            trying.spawn(async move { (address, connect(address).await) });
        }
        let next_is_due = tokio::time::sleep(if next.is_some() { NEXT_AFTER } else { ANSWER_TIME_MAX });
        tokio::select! {
            answered = trying.join_next() => match answered {
                Some(Ok((address, Ok(())))) => return Ok(address),
                Some(Ok((address, Err(error)))) => refused = Some(anyhow!(error).context(format!("cannot connect to {address}"))),
                Some(Err(_)) => {}
                None => return Err(refused.unwrap_or_else(|| anyhow!("there is no address to connect to"))),
            },
            () = next_is_due => {}
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<()> {
    match tokio::time::timeout(ANSWER_TIME_MAX, TcpStream::connect(address)).await {
        Ok(connected) => connected.map(drop),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Families = Families { v4: true, v6: true };

    fn host(host: &str, port: u16) -> HostPort {
        HostPort { host: host.into(), port }
    }

    #[tokio::test]
    async fn the_one_that_answers_is_taken() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        // Port 1 of loopback refuses at once.
        let refuses: SocketAddr = "127.0.0.1:1".parse().unwrap();
        assert_eq!(first_to_answer(&[refuses, there]).await.unwrap(), there);
        assert_eq!(first_to_answer(&[there, refuses]).await.unwrap(), there);
        let text = first_to_answer(&[refuses]).await.unwrap_err().to_string();
        assert_eq!(text, "cannot connect to 127.0.0.1:1");
        assert!(first_to_answer(&[]).await.is_err());
    }

    #[tokio::test]
    async fn an_address_is_taken_as_it_is() {
        let agent = Agent { pin: None, hosts: vec![host("192.0.2.1", 7), host("2001:db8::1", 8)] };
        let found = of_agent(&agent, BOTH).await.unwrap();
        assert_eq!(found, ["192.0.2.1:7".parse().unwrap(), "[2001:db8::1]:8".parse().unwrap()]);
    }

    #[tokio::test]
    async fn bound_addresses_choose_the_family() {
        let v6 = Families::of(&["::1".parse().unwrap()]);
        assert_eq!(v6, Families { v4: false, v6: true });
        assert_eq!(Families::of(&[]), BOTH);
        let text = of_host(&host("192.0.2.1", 7), v6).await.unwrap_err().to_string();
        assert!(text.contains("--bind"), "{text}");
        let text = of_host(&host("no-such-host.invalid", 7), BOTH).await.unwrap_err().to_string();
        assert!(text.contains("no-such-host.invalid"), "{text}");
    }
}
