//! Which network interface has which address.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// The name of the interface that has this address, or `None` if it is not this host's.
///
/// # Errors
///
/// What the kernel says.
pub fn interface_of(addr: IpAddr) -> io::Result<Option<String>> {
    let addr = addr.to_canonical();
    Ok(interfaces()?.into_iter().find_map(|(name, of)| (of == addr).then_some(name)))
}

/// The interfaces of this host and their addresses, a pair for each address. What `ip address add … label eth0:1` calls an address
/// is cut off: it names no interface.
///
/// # Errors
///
/// What the kernel says.
pub fn interfaces() -> io::Result<Vec<(String, IpAddr)>> {
    let list = List::get()?;
    let mut found = Vec::new();
    let mut at = list.0;
    // SAFETY: `at` is null or an entry of the list, which lives until the end of this function.
    while let Some(entry) = unsafe { at.as_ref() } {
        // SAFETY: the address of an entry of the list, null or valid for its family.
        if let Some(addr) = unsafe { ip(entry.ifa_addr) } {
            // SAFETY: the name of an entry is a C string of the list.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push((unlabelled(&name.to_string_lossy()).to_owned(), addr));
        }
        at = entry.ifa_next;
    }
    Ok(found)
}

/// `getifaddrs` names an IPv4 address by its label. The kernel lets no interface have a colon in its name.
fn unlabelled(name: &str) -> &str {
    name.split_once(':').map_or(name, |(interface, _)| interface)
}

/// A list from `getifaddrs`, freed when dropped.
struct List(*mut libc::ifaddrs);

impl List {
    fn get() -> io::Result<List> {
        let mut list = ptr::null_mut();
        // SAFETY: on success the pointer is a list that `drop` frees.
        match unsafe { libc::getifaddrs(&mut list) } {
            0 => Ok(List(list)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: from `getifaddrs`, freed once.
            unsafe { libc::freeifaddrs(self.0) }
        }
    }
}

/// # Safety
///
/// `addr` is null or points to a socket address that is as long as its family says.
unsafe fn ip(addr: *const libc::sockaddr) -> Option<IpAddr> {
    if addr.is_null() {
        return None;
    }
    // SAFETY: not null, and every socket address starts with its family.
    match i32::from(unsafe { (*addr).sa_family }) {
        libc::AF_INET => {
            // SAFETY: by its family; read unaligned, as nothing promises the alignment.
            let v4 = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[test]
fn labels_are_cut_off() {
    assert_eq!(["eth0:1", "eth0", "bond0.7:data:x"].map(unlabelled), ["eth0", "eth0", "bond0.7"]);
}
