//! When the first packet came since one looked, and the last: a program in the kernel stamps them as they enter a device.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags};

use super::{Tun, check};

/// `TUNSETFILTEREBPF`, not in `libc`: `_IOR('T', 225, int)`. Since Linux 4.16.
const TUNSETFILTEREBPF: libc::c_ulong = 0x8004_54e1;
/// Commands, kinds and flags of `linux/bpf.h`.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_PROG_LOAD: libc::c_long = 5;
const MAP_TYPE_ARRAY: u32 = 2;
/// The values can be mapped into this process; since Linux 5.5.
const F_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_SOCKET_FILTER: u32 = 1;
/// `BPF_PSEUDO_MAP_VALUE`: the constant is the address of a value of the map with this descriptor.
const PSEUDO_MAP_VALUE: u8 = 2;
/// Number of the helper `bpf_ktime_get_ns`: CLOCK_MONOTONIC.
const KTIME_GET_NS: i32 = 5;

/// What the program and its map are called in lists of such.
const NAME: [u8; 16] = *b"longhaul_stamps\0";
/// Times by CLOCK_MONOTONIC, nanoseconds; 0 is none. The map has one value of this layout; the least that can be mapped is a page.
#[derive(Debug)]
#[repr(C)]
struct Words {
    first: AtomicU64,
    last: AtomicU64,
}

/// Places of the two in [`Words`], for the program.
const FIRST: i16 = 0;
const LAST: i16 = 8;

/// When the first packet came into one of the watched devices since [`Stamps::arm`], and when the last one did.
///
/// The kernel stamps no packets of a TUN device, and a thread that is woken by one learns of it tens of microseconds later,
/// or hundreds where a processor had been halted. The program is called for each packet and writes
/// the time into two words shared with this process, into that of the first one if nothing is there.
#[derive(Debug)]
pub struct Stamps {
    program: OwnedFd,
    /// Of `length` bytes. They stay mapped while this lives.
    words: NonNull<Words>,
    length: usize,
}

// SAFETY: the mapping belongs to this alone, and is only used as atomics.
unsafe impl Send for Stamps {}

impl Stamps {
    /// One that watches nothing yet.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` without CAP_BPF and CAP_NET_ADMIN, `InvalidInput` or others where the kernel cannot do it (Linux 5.5
    /// can).
    pub fn new() -> io::Result<Stamps> {
        let map = make_map()?;
        let length = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, anywhere; the kernel keeps the map for as long as it is there.
        let address = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, &map, 0) }?;
        let words = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on the mapping ends with `stamps`, also where the program is refused. Until then the map stands for it.
        let mut stamps = Stamps { program: map, words, length };
        stamps.program = load(&program(stamps.program.as_raw_fd()))?;
        Ok(stamps)
    }

    /// Watches a device from now on, for as long as that lives.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where the kernel cannot do it.
    pub fn watch(&self, tun: &Tun) -> io::Result<()> {
        let program: libc::c_int = self.program.as_raw_fd();
        // SAFETY: TUNSETFILTEREBPF reads one descriptor.
        check(unsafe { libc::ioctl(tun.fd.as_raw_fd(), TUNSETFILTEREBPF, &program) })
    }

    /// The next packet is the first one again.
    pub fn arm(&self) {
        self.words().first.store(0, Ordering::Release);
    }

    /// When the first packet came since [`Stamps::arm`], by CLOCK_MONOTONIC; nothing if none has.
    #[must_use]
    pub fn first(&self) -> Option<Duration> {
        time(&self.words().first)
    }

    /// When the last packet came, whether before [`Stamps::arm`] or since, by CLOCK_MONOTONIC; nothing if none ever has. No packet that was
    /// read before this call came later.
    #[must_use]
    pub fn last(&self) -> Option<Duration> {
        time(&self.words().last)
    }

    fn words(&self) -> &Words {
        // SAFETY: mapped at the begin of a page until this is dropped.
        unsafe { self.words.as_ref() }
    }
}

fn time(word: &AtomicU64) -> Option<Duration> {
    let at = word.load(Ordering::Acquire);
    (at != 0).then(|| Duration::from_nanos(at))
}

impl Drop for Stamps {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no reference to it outlives this.
        let unmapped = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

/// An instruction of eBPF (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Source in the upper half, destination in the lower.
    registers: u8,
    offset: i16,
    constant: i32,
}

const fn instruction(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, constant }
}

/// What is done for each packet: its time is written, for the last one's and for the first one's if none is there, and all of it goes on. Two packets at
/// once on two processors may both write, in either order, some nanoseconds apart.
fn program(map: i32) -> [Instruction; 10] {
    [
        // r6 = the packet's length, the first word of `struct __sk_buff`: what the device is to keep of it.
        instruction(0x61, 6, 1, 0, 0),
        // r0 = bpf_ktime_get_ns()
        instruction(0x85, 0, 0, 0, KTIME_GET_NS),
        // r1 = the address of the words, in two halves.
        instruction(0x18, 1, PSEUDO_MAP_VALUE, 0, map),
        instruction(0x00, 0, 0, 0, 0),
        // r1[LAST] = r0
        instruction(0x7b, 1, 0, LAST, 0),
        // r2 = r1[FIRST]; if it is not 0, over the next.
        instruction(0x79, 2, 1, FIRST, 0),
        instruction(0x55, 2, 0, 1, 0),
        // r1[FIRST] = r0
        instruction(0x7b, 1, 0, FIRST, 0),
        // return r6
        instruction(0xbf, 0, 6, 0, 0),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

/// The part of `union bpf_attr` that makes a map; what is left out is zero.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

/// The part of `union bpf_attr` that loads a program; what is left out is zero.
#[repr(C)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
}

fn make_map() -> io::Result<OwnedFd> {
    let asked = MapCreate {
        kind: MAP_TYPE_ARRAY,
        key_bytes: 4,
        value_bytes: size_of::<Words>() as u32,
        entries: 1,
        flags: F_MMAPABLE,
        inner: 0,
        node: 0,
        name: NAME,
    };
    bpf(BPF_MAP_CREATE, &asked)
}

fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let asked = ProgLoad {
        kind: PROG_TYPE_SOCKET_FILTER,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: NAME,
    };
    bpf(BPF_PROG_LOAD, &asked)
}

/// A command that gives a descriptor.
fn bpf<T>(command: libc::c_long, asked: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads so many bytes of `asked`, and through its pointers what they say; it writes nothing there.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(asked), size_of::<T>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::Command;
    use std::thread::sleep;

    use super::*;
    use crate::clock::monotonic;
    use crate::netns::Namespace;

    #[test]
    fn the_first_packet_is_stamped_until_one_looks_anew_and_the_last() {
        if crate::process::euid() != 0 {
            eprintln!("skipped: namespaces need root");
            return;
        }
        let stamps = match Stamps::new() {
            Ok(stamps) => stamps,
            Err(error) => {
                eprintln!("skipped: this kernel lets no program of eBPF be loaded: {error}");
                return;
            }
        };
        let space = Namespace::create(&format!("lh-test-stamps-{}", std::process::id())).unwrap();
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let tun = space.run(|| Tun::create("t0")).unwrap();
            stamps.watch(&tun).unwrap();
            let mut ip = Command::new("sh");
            // Without IPv6, whose own packets would be the first ones.
            ip.args([
                "-c",
                "echo 1 > /proc/sys/net/ipv6/conf/t0/disable_ipv6; ip addr add 10.9.8.1/24 dev t0; ip link set t0 up",
            ]);
            space.start_in(&mut ip, None).unwrap();
            assert!(ip.status().unwrap().success());
            let socket = space.run(|| UdpSocket::bind("10.9.8.1:0")).unwrap();
            let send = || {
                let before = monotonic();
                assert_eq!(socket.send_to(&[7; 100], "10.9.8.2:9").unwrap(), 100);
                (before, monotonic())
            };
            let is_within = |came: Option<Duration>, (before, after): (Duration, Duration)| {
                let came = came.unwrap();
                assert!(before <= came && came <= after, "{before:?} {came:?} {after:?}");
            };
            stamps.arm();
            assert_eq!(stamps.first(), None);
            let sent = send();
            is_within(stamps.first(), sent);
            assert_eq!(stamps.last(), stamps.first(), "a lone one is both");
            sleep(Duration::from_millis(2));
            let second = send();
            is_within(stamps.first(), sent);
            is_within(stamps.last(), second);
            stamps.arm();
            assert_eq!(stamps.first(), None);
            is_within(stamps.last(), second);
            let third = send();
            is_within(stamps.first(), third);
            is_within(stamps.last(), third);
            // All of every packet has gone on.
            let mut packet = [0; 256];
            for _ in 0..3 {
                assert_eq!(tun.read(&mut packet).unwrap(), crate::tun::VNET_HEADER + 28 + 100);
            }
        }));
        space.delete().unwrap();
        tested.unwrap();
    }
}
