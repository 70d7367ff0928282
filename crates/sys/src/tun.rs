//! TUN devices: what a namespace sends into one is read here, and what is written here arrives in it.

mod stamps;

use std::ffi::CString;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

pub use stamps::Stamps;

/// Longest name of a device (IFNAMSIZ less the zero at its end).
pub const NAME_MAX: usize = 15;
/// Bytes of the offload header before each packet (`struct virtio_net_hdr`).
pub const VNET_HEADER: usize = 10;
/// The most that one read gives: the header and the longest packet (IPv6 counts 65,535 bytes after its header of 40).
pub const READ_MAX: usize = VNET_HEADER + 40 + 65_535;

/// `TUN_F_*` of `linux/if_tun.h`: what the kernel may leave to us to do.
const OFFLOAD_CSUM: libc::c_ulong = 0x01;
const OFFLOAD_TSO4: libc::c_ulong = 0x02;
const OFFLOAD_TSO6: libc::c_ulong = 0x04;
const OFFLOAD_TSO_ECN: libc::c_ulong = 0x08;
/// UDP segmentation, since Linux 6.2.
const OFFLOAD_USO4: libc::c_ulong = 0x20;
const OFFLOAD_USO6: libc::c_ulong = 0x40;
/// `TUNSETOFFLOAD`, not in `libc`: `_IOW('T', 208, unsigned int)`.
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;

/// A TUN device that lives as long as this does.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    segments_datagrams: bool,
}

impl Tun {
    /// Makes the device `name` in the network namespace of the calling thread. Packets come and go with an offload header
    /// ([`VNET_HEADER`]), up to 64 KB long; reads do not block.
    ///
    /// # Errors
    ///
    /// `NotFound` where the kernel has no TUN, `PermissionDenied` without CAP_NET_ADMIN, `ResourceBusy` when the
    /// name is taken.
    pub fn create(name: &str) -> io::Result<Tun> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a device's name has 1 to 15 bytes"));
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open(c"/dev/net/tun", flags, Mode::empty())?;
        let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: all zeros is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes_with_nul()) {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &mut request) })?;
        let mut tun = Tun { fd, segments_datagrams: false };
        let base = OFFLOAD_CSUM | OFFLOAD_TSO4 | OFFLOAD_TSO6 | OFFLOAD_TSO_ECN;
        tun.segments_datagrams = tun.offload(base | OFFLOAD_USO4 | OFFLOAD_USO6).is_ok();
        if !tun.segments_datagrams {
            tun.offload(base)?;
        }
        Ok(tun)
    }

    /// Whether packets that come and go may be datagrams of UDP that are still to be segmented (`VIRTIO_NET_HDR_GSO_UDP_L4`, since Linux 6.2).
    #[must_use]
    pub fn segments_datagrams(&self) -> bool {
        self.segments_datagrams
    }

    fn offload(&self, flags: libc::c_ulong) -> io::Result<()> {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), TUNSETOFFLOAD, flags) })
    }

    /// Reads one packet with its offload header; [`READ_MAX`] bytes hold every one.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when none waits.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut *buf))?)
    }

    /// Writes one packet: the slices are its offload header and itself, cut anywhere.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a header that does not fit the packet; `EIO` while the device is down.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::writev(&self.fd, parts))?)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
