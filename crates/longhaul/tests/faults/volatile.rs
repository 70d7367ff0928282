//! A disk that forgets: what was not flushed when the power is cut may be there afterwards, or not.
//!
//! It is an ext4 on a loop device on a file, and the file is served by this process, over FUSE: the loop
//! device turns a flush of the disk into an fsync of the file. What was written since the last flush is kept
//! apart; a cut decides for each block of it whether it had reached the medium.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::{Draw, run, tried};

/// Bytes of a disk that holds a dataset twice, for a copy that replaces everything, and its largest hole filled.
const SIZE: usize = 256 << 20;
/// What is written or lost as a whole.
const BLOCK: usize = 4096;
/// The largest write that the kernel may send.
const WRITE_MAX: u32 = 1 << 20;
/// Bytes before the data of the largest request.
const REQUEST_HEAD_MAX: usize = 4096;
/// Shares of what was not flushed that survive a cut: none, a quarter … all.
const SHARES: u64 = 5;

/// The requests that read and write.
const READ: u32 = 15;
const WRITE: u32 = 16;
const EIO: i32 = 5;
const ENOSYS: i32 = 38;

struct State {
    /// The disk as those see it who use it.
    image: Vec<u8>,
    /// What is on the medium for sure.
    durable: Vec<u8>,
    /// Written since the last flush, in order: offset and bytes of one block or a part of it.
    pending: Vec<(usize, Vec<u8>)>,
    /// The disk hangs: these requests are not answered, nor what comes after them.
    hangs: Option<u32>,
    /// The power is off: everything fails.
    off: bool,
    /// The file is not served any more.
    closed: bool,
}

/// An empty file system, made once and copied for each disk.
pub(crate) fn formatted(dir: &Path) -> Vec<u8> {
    formatted_of(dir, SIZE)
}

/// The same on a disk of so many bytes.
pub(crate) fn formatted_of(dir: &Path, size: usize) -> Vec<u8> {
    let path = dir.join("formatted");
    File::create(&path).and_then(|file| file.set_len(size as u64)).expect("a file can be made");
    run("mkfs.ext4 -q -F -J size=8 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0", &[&path]);
    let image = std::fs::read(&path).expect("the image can be read");
    std::fs::remove_file(&path).expect("it is ours");
    image
}

/// A mounted disk; unmounted when it goes.
pub(crate) struct Disk {
    state: Arc<Mutex<State>>,
    file: PathBuf,
    device: Option<PathBuf>,
    at: PathBuf,
    server: Option<JoinHandle<()>>,
}

impl Disk {
    /// Mounts an image at a directory. `options` are of ext4.
    pub(crate) fn mount(image: Vec<u8>, at: &Path, options: &str) -> Disk {
        let file = at.with_extension("disk");
        File::create(&file).expect("a file can be made");
        let state =
            State { durable: image.clone(), image, pending: Vec::new(), hangs: None, off: false, closed: false };
        let state = Arc::new(Mutex::new(state));
        let fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse").expect("FUSE is there");
        let for_kernel = fuse.try_clone().expect("a descriptor can be had");
        let served = state.clone();
        let server = Some(std::thread::spawn(move || serve(&fuse, &served)));
        let mut disk = Disk { state, file, device: None, at: at.to_owned(), server };
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=100000,user_id=0,group_id=0", "longhaul-test"]);
        let mounted = mount.arg(&disk.file).stdin(Stdio::from(for_kernel)).status().expect("mount runs");
        assert!(mounted.success(), "the served file cannot be mounted");
        disk.device = Some(run("losetup --find --show", &[&disk.file]).into());
        let device = disk.device.clone().expect("just found");
        run(&format!("mount -t ext4 -o noatime,{options}"), &[&device, at]);
        disk
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under the lock")
    }

    /// Answers no reads until what this gives is dropped. Whoever reads meanwhile cannot be killed, so that is to be
    /// declared after the programs that use the disk.
    pub(crate) fn hang(&self) -> Hanging {
        self.hang_at(READ)
    }

    /// The same with writes; who writes through the page cache hangs when it wants them to be durable.
    pub(crate) fn hang_writes(&self) -> Hanging {
        self.hang_at(WRITE)
    }

    fn hang_at(&self, request: u32) -> Hanging {
        self.lock().hangs = Some(request);
        Hanging(self.state.clone())
    }

    /// Cuts the power. Whoever uses the disk gets errors from now on.
    pub(crate) fn cut(&self, draw: &mut Draw) {
        let mut state = self.lock();
        state.off = true;
        let share = draw.below(SHARES);
        for (offset, bytes) in std::mem::take(&mut state.pending) {
            if draw.below(SHARES - 1) < share {
                state.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }

    /// Unmounts it; gives what is on the medium.
    pub(crate) fn remove(mut self) -> Vec<u8> {
        self.unmount();
        let mut state = self.lock();
        // Without a cut the cache of a disk is written in the end.
        if state.off { std::mem::take(&mut state.durable) } else { std::mem::take(&mut state.image) }
    }

    fn unmount(&mut self) {
        if let Some(device) = self.device.take() {
            if !tried("umount", &[&self.at]) {
                tried("umount -l", &[&self.at]);
            }
            tried("losetup --detach", &[&device]);
        }
        // The loop device lets go of the file a moment later.
        let gone = (0..100).any(|_| {
            let gone = tried("umount", &[&self.file]);
            if !gone {
                std::thread::sleep(Duration::from_millis(20));
            }
            gone
        });
        if !gone {
            tried("umount -l", &[&self.file]);
        }
        self.lock().closed = true;
        if let Some(server) = self.server.take() {
            // A server that is still asked by a kernel that holds on to the file is left to the end of the process.
            if gone {
                let _ = server.join();
            }
        }
    }
}

/// A disk that hangs, until this is dropped.
pub(crate) struct Hanging(Arc<Mutex<State>>);

impl Drop for Hanging {
    fn drop(&mut self) {
        // Also while a test fails, perhaps under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).hangs = None;
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.unmount();
        }
    }
}

/// Answers the kernel until the file is unmounted.
fn serve(fuse: &File, state: &Mutex<State>) {
    const EPERM: i32 = 1;
    const ENODEV: i32 = 19;
    let mut request = vec![0; WRITE_MAX as usize + REQUEST_HEAD_MAX];
    loop {
        let mut reader = fuse;
        match reader.read(&mut request) {
            Ok(length) => {
                if let Some(answer) = answer(&request[..length], state) {
                    // A request that was given up meanwhile takes no answer.
                    let _ = { fuse }.write(&answer);
                }
            }
            Err(error) if error.raw_os_error() == Some(ENODEV) => return,
            // Not mounted yet, or not any more.
            Err(error) if error.raw_os_error() == Some(EPERM) => {
                if state.lock().expect("no panic under the lock").closed {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            // Interrupted, or the request was given up before it was read.
            Err(_) => {}
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The answer to one request, as `linux/fuse.h` has them; none to those that take none.
fn answer(request: &[u8], state: &Mutex<State>) -> Option<Vec<u8>> {
    const HEAD: usize = 40;
    const FORGET: u32 = 2;
    const INTERRUPT: u32 = 36;
    const BATCH_FORGET: u32 = 42;
    const LOOK: Duration = Duration::from_millis(5);
    let (code, unique) = (u32_at(request, 4), u64_at(request, 8));
    while state.lock().expect("no panic under the lock").hangs == Some(code) {
        std::thread::sleep(LOOK);
    }
    if matches!(code, FORGET | INTERRUPT | BATCH_FORGET) {
        return None;
    }
    let mut state = state.lock().expect("no panic under the lock");
    let (error, body) = match state.handle(code, &request[HEAD..]) {
        Ok(body) => (0, body),
        Err(error) => (-error, Vec::new()),
    };
    let mut whole = Vec::with_capacity(16 + body.len());
    whole.extend((16 + body.len() as u32).to_le_bytes());
    whole.extend(error.to_le_bytes());
    whole.extend(unique.to_le_bytes());
    whole.extend(body);
    Some(whole)
}

impl State {
    fn handle(&mut self, code: u32, body: &[u8]) -> Result<Vec<u8>, i32> {
        match code {
            // GETATTR, SETATTR: valid for a second, then the attributes.
            3 | 4 => Ok([&1u64.to_le_bytes()[..], &[0; 8], &attributes(self.image.len())].concat()),
            // OPEN, STATFS: no handle, no flags; numbers that nobody reads.
            14 => Ok(vec![0; 16]),
            17 => Ok(vec![0; 80]),
            // RELEASE, FLUSH, DESTROY: nothing is kept of an open file.
            18 | 25 | 38 => Ok(Vec::new()),
            READ => self.read(u64_at(body, 8) as usize, u32_at(body, 16) as usize),
            WRITE => self.write(u64_at(body, 8) as usize, &body[40..40 + u32_at(body, 16) as usize]),
            20 => self.flush(),
            26 => Ok(begin()),
            _ => Err(ENOSYS),
        }
    }

    fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>, i32> {
        if self.off {
            return Err(EIO);
        }
        let offset = offset.min(self.image.len());
        Ok(self.image[offset..(offset + length).min(self.image.len())].to_vec())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<Vec<u8>, i32> {
        if self.off || offset + bytes.len() > self.image.len() {
            return Err(EIO);
        }
        self.image[offset..offset + bytes.len()].copy_from_slice(bytes);
        let mut left = bytes;
        let mut at = offset;
        while !left.is_empty() {
            let (part, rest) = left.split_at(left.len().min(BLOCK - at % BLOCK));
            self.pending.push((at, part.to_vec()));
            (left, at) = (rest, at + part.len());
        }
        Ok([(bytes.len() as u32).to_le_bytes(), [0; 4]].concat())
    }

    fn flush(&mut self) -> Result<Vec<u8>, i32> {
        if self.off {
            return Err(EIO);
        }
        for (offset, bytes) in std::mem::take(&mut self.pending) {
            self.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(Vec::new())
    }
}

/// INIT: version 7.31, large writes.
fn begin() -> Vec<u8> {
    const BIG_WRITES: u32 = 1 << 5;
    const MAX_PAGES: u32 = 1 << 22;
    const BACKGROUND: u16 = 16;
    let mut body = Vec::with_capacity(64);
    for number in [7, 31, WRITE_MAX, BIG_WRITES | MAX_PAGES] {
        body.extend(number.to_le_bytes());
    }
    body.extend(BACKGROUND.to_le_bytes());
    body.extend((BACKGROUND / 4 * 3).to_le_bytes());
    body.extend(WRITE_MAX.to_le_bytes());
    body.extend(1u32.to_le_bytes());
    body.extend(((WRITE_MAX as usize / BLOCK) as u16).to_le_bytes());
    body.resize(64, 0);
    body
}

/// A regular file of that size.
fn attributes(size: usize) -> Vec<u8> {
    const MODE: u32 = 0o100_600;
    let mut body = Vec::with_capacity(88);
    for number in [1, size as u64, size as u64 / 512, 0, 0, 0] {
        body.extend(number.to_le_bytes());
    }
    for number in [0, 0, 0, MODE, 1, 0, 0, 0, BLOCK as u32, 0] {
        body.extend(u32::to_le_bytes(number));
    }
    body
}
