//! How a file is opened.

use rustix::fs::OFlags;

/// How a file is opened. Start from [`OpenFlags::read`] or [`OpenFlags::write`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Make it if it is not there, with `mode`.
    pub create: bool,
    /// Make it, with `mode`; `AlreadyExists` if it is there.
    pub create_new: bool,
    /// Cut it to nothing.
    pub truncate: bool,
    /// Every write goes to the end. Not with positional writes: Linux ignores their offset then.
    pub append: bool,
    /// Past the page cache (`O_DIRECT`) if the file system can; [`is_direct`](super::is_direct)
    /// tells.
    pub direct: bool,
    /// Follow the last component when it is a symbolic link that stays beneath. Only for reading
    /// and only by [`Resolver::Kernel`](super::Resolver::Kernel).
    pub follow: bool,
    /// Do not change the time of last access, where the system allows asking for that.
    pub no_atime: bool,
    /// Permission bits of a new file, before the umask.
    pub mode: u32,
}

impl OpenFlags {
    /// An existing file for reading.
    pub const fn read() -> OpenFlags {
        OpenFlags { read: true, ..OpenFlags::NONE }
    }

    /// An existing file for writing.
    pub const fn write() -> OpenFlags {
        OpenFlags { write: true, ..OpenFlags::NONE }
    }

    /// A new file for reading and writing, with these permission bits.
    pub const fn create_new(mode: u32) -> OpenFlags {
        OpenFlags { read: true, write: true, create_new: true, mode, ..OpenFlags::NONE }
    }

    /// The same, past the page cache if possible.
    pub const fn direct(self) -> OpenFlags {
        OpenFlags { direct: true, ..self }
    }

    const NONE: OpenFlags = OpenFlags {
        read: false,
        write: false,
        create: false,
        create_new: false,
        truncate: false,
        append: false,
        direct: false,
        follow: false,
        no_atime: false,
        mode: 0,
    };

    pub(super) fn creates(&self) -> bool {
        self.create || self.create_new
    }

    pub(super) fn changes(&self) -> bool {
        self.write || self.append || self.truncate || self.creates()
    }

    pub(super) fn oflags(&self) -> OFlags {
        let mut flags = match (self.read, self.write || self.append) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        } | OFlags::NOCTTY;
        flags.set(OFlags::CREATE, self.creates());
        flags.set(OFlags::EXCL, self.create_new);
        flags.set(OFlags::TRUNC, self.truncate);
        flags.set(OFlags::APPEND, self.append);
        flags.set(OFlags::NOFOLLOW, !self.follow || self.changes());
        flags.set(OFlags::NOATIME, self.no_atime);
        // A pipe put in a file's place must not stop us; taken off again once it is open.
        flags.set(OFlags::NONBLOCK, !self.create_new);
        flags
    }
}
