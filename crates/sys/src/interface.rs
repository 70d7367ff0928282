//! The host's network interfaces: their addresses, rates and MTUs, and what they carried.

mod traffic;

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::null_mut;

pub use traffic::{Device, Traffic, devices};

/// An interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its addresses, in order.
    pub addresses: Vec<IpAddr>,
    /// Its rate, b/s, where the driver knows one, each way. A device of hardware, a bond or a VLAN is believed; what veth and TUN devices
    /// tell is made up.
    pub rate_bps: Option<u64>,
    /// Its MTU, bytes; 0 if the kernel does not tell.
    pub mtu_bytes: u32,
    /// It leads nowhere but here.
    pub is_loopback: bool,
}

/// The interfaces that are up and have an address, by name. Of IPv6, addresses that are good on one link only are left out.
///
/// # Errors
/// What the kernel says.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    for (name, flags, address) in addresses()? {
        let interface = found.entry(name.clone()).or_insert_with(|| Interface {
            rate_bps: rate(&name),
            mtu_bytes: number(&name, "mtu").and_then(|mtu| u32::try_from(mtu).ok()).unwrap_or(0),
            is_loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
            name,
            addresses: Vec::new(),
        });
        interface.addresses.push(address);
    }
    found.values_mut().for_each(|interface| interface.addresses.sort_unstable());
    Ok(found.into_values().collect())
}

fn rate(name: &str) -> Option<u64> {
    let at = format!("/sys/class/net/{name}");
    let is_of = |kind: &str| {
        let told = std::fs::read_to_string(format!("{at}/uevent")).unwrap_or_default();
        told.lines().any(|line| line.strip_prefix("DEVTYPE=") == Some(kind))
    };
    let is_believed = std::path::Path::new(&format!("{at}/device")).exists() || is_of("bond") || is_of("vlan");
    number(name, "speed").filter(|_| is_believed).map(|megabits| megabits.saturating_mul(1_000_000))
}

/// A number that the kernel tells of an interface; drivers that do not know their rate say -1 or nothing.
fn number(name: &str, what: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok()?;
    text.trim().parse().ok().filter(|number| *number > 0)
}

fn addresses() -> io::Result<Vec<(String, u32, IpAddr)>> {
    let mut list: *mut libc::ifaddrs = null_mut();
    // SAFETY: `list` is a place for the head of a list, which is freed below.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` is an element of the list, which is not freed yet.
        let element = unsafe { &*next };
        next = element.ifa_next;
        if element.ifa_flags & libc::IFF_UP as u32 == 0 || element.ifa_addr.is_null() {
            continue;
        }
        // SAFETY: an element's name ends in a zero byte, and lives as long as the list.
        let name = unsafe { CStr::from_ptr(element.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: the address is not null, and is as long as its family says.
        if let Some(address) = unsafe { address_of(element.ifa_addr) } {
            found.push((name, element.ifa_flags, address));
        }
    }
    // SAFETY: the list is from `getifaddrs`, and nothing points into it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// # Safety
/// `address` points at a socket address that is as long as its family says.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: every socket address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: it is one of IPv4; it may stand at any place.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: it is one of IPv6; it may stand at any place.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let address = Ipv6Addr::from(address.sin6_addr.s6_addr);
            (!address.is_unicast_link_local()).then_some(address.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_among_them() {
        let found = interfaces().unwrap();
        // A sandbox may have it down.
        if let Some(loopback) = found.iter().find(|interface| interface.is_loopback) {
            assert!(loopback.addresses.iter().all(IpAddr::is_loopback) || !loopback.addresses.is_empty());
            assert!(loopback.mtu_bytes >= 1280, "{loopback:?}");
        }
        let names: Vec<&str> = found.iter().map(|interface| interface.name.as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
    }
}
