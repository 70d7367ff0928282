//! The file system that holds a file.

use std::io;
use std::os::fd::AsFd;

use super::Meta;

/// What a file system has and is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its type: `ext4` (also ext2 and ext3), `xfs`, `tmpfs`, `nfs`, `lustre` … or, when neither
    /// its magic number nor the mount table tells, the number as `0x…`.
    pub name: String,
    /// Size in bytes.
    pub total_bytes: u64,
    /// Unused bytes, including those kept for root.
    pub free_bytes: u64,
    /// Bytes that a user other than root may still take. Quotas are not seen here.
    pub available_bytes: u64,
    /// Files that can still be made; 0 also where there is no limit.
    pub free_files: u64,
    /// What it prefers to be read and written in, in bytes.
    pub block_bytes: u64,
}

impl FileSystem {
    /// Whether the data lives on another machine, as far as the type tells.
    pub fn is_remote(&self) -> bool {
        const REMOTE: [&str; 10] = ["nfs", "lustre", "ceph", "smb", "afs", "9p", "gpfs", "beegfs", "panfs", "fuse"];
        REMOTE.iter().any(|kind| self.name.starts_with(kind))
    }
}

/// Describes the file system of an open file.
///
/// # Errors
///
/// What the file system says.
#[allow(clippy::unnecessary_cast, reason = "the widths of these fields differ between architectures")]
pub fn statfs(fd: impl AsFd) -> io::Result<FileSystem> {
    let fd = fd.as_fd();
    let s = rustix::fs::fstatfs(fd)?;
    let fragment = if s.f_frsize > 0 { s.f_frsize as u64 } else { s.f_bsize as u64 };
    let bytes = |blocks: u64| blocks.saturating_mul(fragment);
    let magic = s.f_type as u32;
    let name = match known(magic) {
        Some(name) => name.to_owned(),
        None => mounted(Meta::of(fd)?.dev).unwrap_or_else(|| format!("{magic:#x}")),
    };
    Ok(FileSystem {
        name,
        total_bytes: bytes(s.f_blocks as u64),
        free_bytes: bytes(s.f_bfree as u64),
        available_bytes: bytes(s.f_bavail as u64),
        free_files: s.f_ffree as u64,
        block_bytes: s.f_bsize as u64,
    })
}

/// From `linux/magic.h` and, for those outside the kernel, their own headers.
fn known(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
        0xCA45_1A4E => "bcachefs",
        0x0102_1994 => "tmpfs",
        0x8584_58F6 => "ramfs",
        0x794C_7630 => "overlay",
        0x6969 => "nfs",
        0x0BD0_0BD0 => "lustre",
        0x00C3_6400 => "ceph",
        0xFF53_4D42 | 0xFE53_4D42 => "smb",
        0x5346_414F => "afs",
        0x0102_1997 => "9p",
        0x4750_4653 => "gpfs",
        0x1983_0326 => "beegfs",
        0xAAD7_AAEA => "panfs",
        0x7461_636F => "ocfs2",
        0x0116_1970 => "gfs2",
        0x4D44 => "vfat",
        0x2011_BAB0 => "exfat",
        0x7366_746E => "ntfs3",
        0x7371_7368 | 0x7371_7367 => "squashfs",
        0x9660 => "iso9660",
        0x9FA0 => "proc",
        0x6265_6572 => "sysfs",
        _ => return None,
    })
}

/// The type of the mount of device `dev`, such as `fuse.sshfs`, from the mount table.
fn mounted(dev: u64) -> Option<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounted_in(&table, rustix::fs::major(dev), rustix::fs::minor(dev)).map(str::to_owned)
}

/// A line is `36 35 98:0 /root /mount/point options … - type source super-options`.
pub(super) fn mounted_in(table: &str, major: u32, minor: u32) -> Option<&str> {
    let device = format!("{major}:{minor}");
    table.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        (before.split(' ').nth(2)? == device).then(|| after.split(' ').next())?
    })
}
