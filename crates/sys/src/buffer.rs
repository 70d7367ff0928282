//! Page-aligned buffers cut from one mapping, handed from stage to stage and never copied.
//!
//! A [`Slab`] is made once at the start; each of its [`Buffer`]s exists exactly once and moves
//! between threads by value, so its owner has it alone and using it takes neither a lock nor an
//! allocation. Keep the idle ones in any queue; a dropped buffer does not come back, and the
//! memory returns to the system when the slab and its last buffer are gone.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Most buffers in one slab: an index is 16 bits.
pub const SLAB_BUFFERS_MAX: usize = 1 << 16;

/// Where each buffer starts: a multiple of this many bytes. Enough for any O_DIRECT device with
/// logical blocks up to 4 KiB, and the page size of the machines we know.
pub const BUFFER_ALIGN_BYTES: usize = 4096;

/// The kernel's huge page on x86-64 and on 4 KiB-page arm64.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// How a slab's memory is obtained. The default touches no page before its first use.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlabOptions {
    /// Fault every page in now, so that no transfer pays for it and a lack of memory shows at once.
    pub populate: bool,
    /// Prefer memory of this NUMA node. Best effort: ignored where the kernel knows no such node, and where whoever started this
    /// process gave it a memory policy (`numactl --membind`, `NUMAPolicy=` of systemd).
    pub node: Option<u32>,
}

/// One anonymous mapping cut into equal buffers.
///
/// Clones name the same mapping.
#[derive(Clone, Debug)]
pub struct Slab {
    region: Arc<Region>,
}

impl Slab {
    /// Maps `count` buffers of `size_bytes` each, zeroed, and hands all of them out.
    ///
    /// Each starts at a multiple of [`BUFFER_ALIGN_BYTES`]. Huge pages, absence from core dumps and
    /// from forked children are asked for and not required.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `count` is 0 or above [`SLAB_BUFFERS_MAX`], or `size_bytes` is 0 or the
    /// product does not fit; `OutOfMemory` and the like from `mmap`.
    pub fn new(count: usize, size_bytes: usize) -> io::Result<(Slab, Vec<Buffer>)> {
        Slab::with(count, size_bytes, SlabOptions::default())
    }

    /// As [`Slab::new`], with a say in where the memory lies and when it is faulted in.
    ///
    /// # Errors
    ///
    /// As [`Slab::new`]; with `populate` also the lack of memory.
    pub fn with(count: usize, size_bytes: usize, options: SlabOptions) -> io::Result<(Slab, Vec<Buffer>)> {
        let region = Arc::new(Region::map(count, size_bytes, options)?);
        let buffers = (0..count)
            .map(|index| Buffer {
                start: region.at(index),
                len: size_bytes,
                // `map` checked that `count` fits.
                index: index as u16,
                region: Arc::clone(&region),
            })
            .collect();
        Ok((Slab { region }, buffers))
    }

    /// How many buffers the slab was cut into.
    pub fn count(&self) -> usize {
        self.region.count
    }

    /// The length of each buffer.
    pub fn size_bytes(&self) -> usize {
        self.region.size
    }

    /// Whether `buffer` was cut from this slab.
    pub fn owns(&self, buffer: &Buffer) -> bool {
        Arc::ptr_eq(&self.region, &buffer.region)
    }
}

/// One buffer of a [`Slab`], owned by whoever holds it.
///
/// Derefs to its bytes, always the full size. It keeps the mapping alive.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    index: u16,
    region: Arc<Region>,
}

// SAFETY: a `Buffer` is the only handle to its byte range (`Slab::with` makes one per index and it
// cannot be cloned), so moving it to another thread moves the bytes with it.
unsafe impl Send for Buffer {}
// SAFETY: through `&Buffer` the bytes can only be read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Its place in the slab, from 0.
    pub fn index(&self) -> u16 {
        self.index
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the mapping that `region` keeps alive, was zeroed by the
        // kernel, and nobody else holds a handle to it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.index, self.len)
    }
}

/// The mapping itself; unmapped when the last handle goes.
#[derive(Debug)]
struct Region {
    start: NonNull<u8>,
    len: usize,
    stride: usize,
    size: usize,
    count: usize,
}

// SAFETY: a `Region` is an address range; it gives no access to the bytes by itself.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    fn map(count: usize, size: usize, options: SlabOptions) -> io::Result<Region> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, "slab of impossible size");
        if count == 0 || count > SLAB_BUFFERS_MAX || size == 0 {
            return Err(bad());
        }
        let stride = size.checked_next_multiple_of(page_bytes()).ok_or_else(bad)?;
        let len = stride.checked_mul(count).filter(|len| *len <= isize::MAX as usize).ok_or_else(bad)?;
        let start = map_aligned(len)?;
        let region = Region { start, len, stride, size, count };
        region.advise();
        if let Some(node) = options.node {
            region.prefer_node(node);
        }
        if options.populate {
            region.populate()?;
        }
        Ok(region)
    }

    fn at(&self, index: usize) -> NonNull<u8> {
        debug_assert!(index < self.count);
        // SAFETY: `index < count`, so the offset stays inside the mapping.
        unsafe { self.start.add(index * self.stride) }
    }

    fn advise(&self) {
        for advice in [Advice::LinuxHugepage, Advice::LinuxDontDump, Advice::LinuxDontFork] {
            // SAFETY: the advice is about our own mapping, and none of these changes its contents
            // in this process. An error means the kernel does not offer it, which is fine.
            let _ = unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.len, advice) };
        }
    }

    fn prefer_node(&self, node: u32) {
        if has_memory_policy() {
            return;
        }
        const MPOL_PREFERRED: libc::c_ulong = 1;
        const NO_FLAGS: libc::c_ulong = 0;
        const MASK_WORDS: usize = 16;
        let mut mask = [0u64; MASK_WORDS];
        let Some(word) = mask.get_mut(node as usize / 64) else {
            return;
        };
        *word = 1 << (node % 64);
        // SAFETY: the range is our own mapping and the mask is live for the call. Best effort: a
        // refusal leaves the default policy.
        unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.len,
                MPOL_PREFERRED,
                mask.as_ptr(),
                MASK_WORDS * 64 + 1,
                NO_FLAGS,
            );
        }
    }

    fn populate(&self) -> io::Result<()> {
        // SAFETY: populating our own mapping for writing changes no contents.
        let asked = unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite) };
        match asked {
            Ok(()) => Ok(()),
            // Before Linux 5.14: touch each page.
            Err(rustix::io::Errno::INVAL) => {
                for offset in (0..self.len).step_by(page_bytes()) {
                    // SAFETY: inside the mapping, and no buffer has been handed out yet.
                    unsafe { self.start.as_ptr().add(offset).write_volatile(0) };
                }
                Ok(())
            }
            Err(e) => Err(e.into()),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no `Buffer` or ring holds the region any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Whether the calling thread was given a memory policy: threads have that of the process, unless they ask for another.
fn has_memory_policy() -> bool {
    const MPOL_DEFAULT: libc::c_int = 0;
    let mut mode: libc::c_int = MPOL_DEFAULT;
    let no_mask = ptr::null_mut::<libc::c_ulong>();
    // SAFETY: writes one number, which is live for the call; without an address and flags it asks for the thread's policy. Where that
    // is refused the number stays as it is.
    unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, no_mask, 0, ptr::null::<u8>(), 0) };
    mode != MPOL_DEFAULT
}

fn page_bytes() -> usize {
    rustix::param::page_size().max(BUFFER_ALIGN_BYTES)
}

/// Maps `len` bytes, starting on a huge page when there is at least one to fill.
fn map_aligned(len: usize) -> io::Result<NonNull<u8>> {
    let spare = if len >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { 0 };
    let total = len
        .checked_add(spare)
        .and_then(|n| n.checked_next_multiple_of(page_bytes()))
        .ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: a fresh private anonymous mapping at an address of the kernel's choice.
    let base = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            total,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )?
    }
    .cast::<u8>();
    let head = if spare == 0 { 0 } else { base.align_offset(HUGE_PAGE_BYTES) };
    debug_assert!(head <= spare);
    for (from, bytes) in [(0, head), (head + len, total - head - len)] {
        if bytes > 0 {
            // SAFETY: both ends are page-aligned parts of the mapping just made that nobody uses.
            unsafe { rustix::mm::munmap(base.add(from).cast(), bytes)? };
        }
    }
    // SAFETY: `head <= spare`, inside the mapping.
    NonNull::new(unsafe { base.add(head) }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_apart_and_zero() {
        let (slab, buffers) = Slab::new(5, 10_000).unwrap();
        assert_eq!(slab.count(), 5);
        assert_eq!(slab.size_bytes(), 10_000);
        for (i, b) in buffers.iter().enumerate() {
            assert_eq!(b.index() as usize, i);
            assert_eq!(b.len(), 10_000);
            assert_eq!(b.as_ptr() as usize % BUFFER_ALIGN_BYTES, 0);
            assert!(b.iter().all(|&x| x == 0));
            assert!(slab.owns(b));
        }
    }

    #[test]
    fn large_slabs_start_on_a_huge_page() {
        let (_slab, buffers) = Slab::new(3, 3 << 20).unwrap();
        assert_eq!(buffers[0].as_ptr() as usize % HUGE_PAGE_BYTES, 0);
    }

    #[test]
    fn populate_and_node_are_accepted() {
        let options = SlabOptions { populate: true, node: Some(0) };
        let (_slab, mut buffers) = Slab::with(4, 1 << 20, options).unwrap();
        buffers[3][1_048_575] = 7;
        assert_eq!(buffers[3][1_048_575], 7);
        // A node that does not exist is ignored.
        Slab::with(1, 4096, SlabOptions { populate: false, node: Some(1023) }).unwrap();
        Slab::with(1, 4096, SlabOptions { populate: false, node: Some(5000) }).unwrap();
    }

    /// What the kernel says of the memory at this address: `prefer:0`, say. `None` where it knows no nodes.
    fn policy(buffer: &Buffer) -> Option<String> {
        let all = std::fs::read_to_string("/proc/self/numa_maps").ok()?;
        // The kernel puts mappings together that lie side by side and have the same policy.
        let holds = |start: &str| usize::from_str_radix(start, 16).unwrap() <= buffer.as_ptr() as usize;
        let mappings = all.lines().filter_map(|line| line.split_once(' '));
        let (_, rest) = mappings.take_while(|(start, _)| holds(start)).last()?;
        Some(rest.split(' ').next()?.to_owned())
    }

    #[test]
    fn a_node_is_preferred_where_nobody_else_has_a_policy() {
        let on = |node| Slab::with(4, 4096, SlabOptions { populate: true, node }).unwrap();
        let (_plain, plain) = on(None);
        let Some(default) = policy(&plain[0]) else { return };
        assert_eq!(policy(&on(Some(0)).1[0]).unwrap(), "prefer:0");
        let kept = std::thread::spawn(move || {
            const MPOL_BIND: libc::c_ulong = 2;
            let node_0: libc::c_ulong = 1;
            // SAFETY: reads one word, which is live for the call, and changes the policy of this thread alone.
            let set = unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, &raw const node_0, 64) };
            assert_eq!(set, 0, "{}", io::Error::last_os_error());
            policy(&on(Some(0)).1[0])
        });
        assert_eq!(kept.join().unwrap().unwrap(), default, "the mapping has no policy of its own");
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (count, size) in
            [(0, 4096), (1, 0), (SLAB_BUFFERS_MAX + 1, 1), (2, usize::MAX / 2), (65_536, usize::MAX / 65_536)]
        {
            let error = Slab::new(count, size).unwrap_err();
            assert!(
                matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::OutOfMemory),
                "{count} x {size}: {error}"
            );
        }
    }

    #[test]
    fn buffers_outlive_the_slab() {
        let (slab, mut buffers) = Slab::new(2, 4096).unwrap();
        drop(slab);
        let last = buffers.pop().unwrap();
        drop(buffers);
        assert!(last.iter().all(|&x| x == 0));
    }

    #[test]
    fn recycled_across_threads_without_mixing() {
        use std::sync::mpsc;
        const ROUNDS: usize = 20_000;
        let (_slab, buffers) = Slab::new(8, 4096).unwrap();
        let (idle_tx, idle_rx) = mpsc::sync_channel::<Buffer>(8);
        let (full_tx, full_rx) = mpsc::sync_channel::<(usize, Buffer)>(8);
        for b in buffers {
            idle_tx.send(b).unwrap();
        }
        let writer = std::thread::spawn(move || {
            for round in 0..ROUNDS {
                let mut b = idle_rx.recv().unwrap();
                b.fill(round as u8);
                b[..8].copy_from_slice(&(round as u64).to_le_bytes());
                full_tx.send((round, b)).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            let (round, b) = full_rx.recv().unwrap();
            assert_eq!(b[..8], (round as u64).to_le_bytes());
            assert!(b[8..].iter().all(|&x| x == round as u8));
            let _ = idle_tx.send(b);
        }
        writer.join().unwrap();
    }
}
