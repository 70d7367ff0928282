//! Directories whose names cannot lead out of them, and everything one does to a file.
//!
//! A [`Dir`] is an open directory. Names given to it are relative, bytes, and resolve strictly
//! beneath it: `..`, absolute names and symbolic links that lead outside are refused by the kernel
//! (`openat2`) or, before Linux 5.6, component by component; see [`Resolver`]. Such a refusal is an
//! [`io::Error`](std::io::Error) that [`Refusal::of`] recognises.
//!
//! ```
//! # use sys::file::{self, Dir, OpenFlags, Refusal};
//! # fn main() -> std::io::Result<()> {
//! # let temp = tempfile::tempdir()?;
//! let root = Dir::open(temp.path())?;
//! let run = root.mkdir_all(b"2024/run-7", 0o755)?;
//! let file = run.open_file(b".events.part", OpenFlags::create_new(0o644))?;
//! file::write_all_at(&file, b"...", 0)?;
//! file::fdatasync(&file)?;
//! run.rename(b".events.part", b"events")?;
//! run.sync()?;
//! let error = root.open_file(b"../elsewhere", OpenFlags::read()).unwrap_err();
//! assert_eq!(Refusal::of(&error), Some(Refusal::BadName));
//! # Ok(())
//! # }
//! ```
//!
//! Functions that work on an open file take anything that is [`AsFd`](std::os::fd::AsFd).

mod attributes;
mod copy;
mod data;
mod dir;
mod direct;
mod flush;
mod list;
mod lock;
mod meta;
mod open;
mod resolve;
mod space;
mod statfs;
mod stream;
mod xattr;

#[cfg(test)]
mod tests;

pub use attributes::{Owner, Times, fchmod, fchown, futimens};
pub use copy::{copy_file_range, pipe, sendfile, splice};
pub use data::{
    Advice, Cache, begin_read_at, can_pass, fadvise, is_cached, read_at, read_at_with, read_exact_at, write_all_at,
    write_at,
};
pub use dir::Dir;
pub use direct::{Alignment, direct_alignment, is_direct, set_direct};
pub use flush::{Flush, fdatasync, fsync, sync_file_range, syncfs};
pub use list::{Entry, ReadDir};
pub use lock::{Lock, LockMode, lock, unlock};
pub use meta::{Kind, Meta};
pub use open::OpenFlags;
pub use resolve::{NAME_BYTES_MAX, Refusal, Resolver};
pub use space::{fallocate, punch_hole, seek_data, seek_hole, truncate};
pub use statfs::{FileSystem, statfs};
pub use stream::{grow_pipe, wait_readable};
pub use xattr::{get_xattr, list_xattrs, remove_xattr, set_xattr};
