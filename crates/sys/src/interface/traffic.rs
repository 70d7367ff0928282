//! What interfaces have carried, as the kernel counts it (`struct rtnl_link_stats64` of `rtnetlink(7)`).
//!
//! Over netlink, not from `/sys`: both ways of an interface come at one moment, and from the network namespace that the socket was opened in.

use std::collections::BTreeMap;

use crate::netlink::{Netlink, Refused, attribute, number, text};

const RTM_GETLINK: u16 = 18;
/// struct ifinfomsg: family, type of link (at 2), index (at 4), flags, changes.
const IFINFO_BYTES: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;

/// The type of links whose frames are counted with a header of Ethernet (`include/uapi/linux/if_arp.h`). A TUN device has none, and the
/// loopback counts when it is taken off.
const ARPHRD_ETHER: u16 = 1;
/// That header: two addresses and a type (IEEE 802.3).
const ETHERNET_BYTES: u64 = 14;

/// An interface, up or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The kernel's number.
    pub index: i32,
    /// All that it has sent.
    pub sent: Traffic,
    /// All that it has received.
    pub received: Traffic,
}

/// What went through an interface one way since it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes as the kernel counts them: with the header of the link.
    pub bytes: u64,
    /// Packets. A virtual interface counts what is cut up later as one.
    pub packets: u64,
    /// Bytes of the link's header before each packet.
    pub header_bytes: u64,
}

impl Traffic {
    /// Bytes of IP packets.
    #[must_use]
    pub fn ip_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.packets.saturating_mul(self.header_bytes))
    }
}

/// All interfaces by name.
///
/// # Errors
/// What the kernel says.
pub fn devices(kernel: &mut Netlink) -> Result<BTreeMap<String, Device>, Refused> {
    let links = kernel.dump(RTM_GETLINK, &[0; IFINFO_BYTES])?;
    Ok(links.iter().filter_map(|link| device(&link.body)).collect())
}

fn device(body: &[u8]) -> Option<(String, Device)> {
    let link_type = number(body, 2).map(u16::from_ne_bytes)?;
    let index = number(body, 4).map(i32::from_ne_bytes)?;
    let attributes = body.get(IFINFO_BYTES..)?;
    let name = attribute(attributes, IFLA_IFNAME).map(text)?;
    // Packets received, packets sent, bytes received, bytes sent, ….
    let stats = attribute(attributes, IFLA_STATS64).unwrap_or_default();
    let word = |at: usize| number(stats, at * 8).map_or(0, u64::from_ne_bytes);
    let header_bytes = if link_type == ARPHRD_ETHER { ETHERNET_BYTES } else { 0 };
    let traffic = |packets, bytes| Traffic { bytes: word(bytes), packets: word(packets), header_bytes };
    Some((name, Device { index, sent: traffic(1, 3), received: traffic(0, 2) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::put;

    #[test]
    fn the_loopback_counts_what_goes_through_it() {
        let mut kernel = Netlink::open().unwrap();
        let before = devices(&mut kernel).unwrap()["lo"];
        assert_eq!(before.sent, before.received, "what it sends it receives");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 1000], socket.local_addr().unwrap()).unwrap();
        let after = devices(&mut kernel).unwrap()["lo"];
        assert!(after.sent.ip_bytes() >= before.sent.ip_bytes() + 1028, "{before:?} {after:?}");
        assert!(after.sent.packets > before.sent.packets);
        assert_eq!(after.sent.header_bytes, 0);
    }

    #[test]
    fn headers_are_taken_off_where_there_are_some() {
        let told = |link_type: u16| {
            let mut body = vec![0; IFINFO_BYTES];
            body[2..4].copy_from_slice(&link_type.to_ne_bytes());
            body[4..8].copy_from_slice(&7_i32.to_ne_bytes());
            put(&mut body, IFLA_IFNAME, b"x\0");
            let stats: Vec<u8> = [2_u64, 3, 3_028, 4_542].iter().flat_map(|word| word.to_ne_bytes()).collect();
            put(&mut body, IFLA_STATS64, &stats);
            let (name, device) = device(&body).unwrap();
            assert_eq!((name.as_str(), device.index), ("x", 7));
            (device.sent.ip_bytes(), device.received.ip_bytes())
        };
        assert_eq!(told(ARPHRD_ETHER), (4_500, 3_000));
        assert_eq!(told(0xfffe), (4_542, 3_028), "a TUN device");
        assert_eq!(device(&[0; IFINFO_BYTES]), None, "without a name");
        let odd = Traffic { bytes: 5, packets: u64::MAX, header_bytes: 14 };
        assert_eq!(odd.ip_bytes(), 0);
    }
}
