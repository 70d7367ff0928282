//! Decisions: what is at the place of an entry, and what that means for it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto::control::{CopyOptions, Outcome, Overwrite};
use proto::destination::Decision;
use proto::journal::Record;
use proto::{ChunkSet, Entry, EntryKind, Identity, RelPath, Time};
use sys::file::{Dir, Kind, Meta, OpenFlags, Times};

use super::describe::{attributes, open_to_describe};
use super::epochs::Epochs;
use super::journal::JournalFile;
use super::open::Opener;
use super::place::{Place, is_own_name};
use super::target::{Big, Counted, Target, Targets};
use super::{nanoseconds, say, time};

/// Bytes read at a time for a digest of what is there.
const COMPARE_BYTES: usize = 1 << 20;
/// Descriptors of a big file that is received.
const DESCRIPTORS: usize = 2;
/// How often, and how many times at most, is looked whether files were published and descriptors are free: 10 s.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 1000;
/// Most ranges of chunks that a resume tells; the rest is sent again.
const HAVE_RANGES_MAX: usize = proto::limits::CHUNK_RANGES_MAX;

/// What the decisions of a session rest on; each disk has a thread that makes those for what is on it.
pub struct Decider {
    /// The destination.
    pub place: Arc<Place>,
    /// Files that are received.
    pub targets: Arc<Targets>,
    /// The journal; `None` in a dry run.
    pub journal: Option<Arc<Mutex<JournalFile>>>,
    /// How the dataset is copied.
    pub options: CopyOptions,
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// Files of up to this many bytes travel whole.
    pub small_max: u32,
    /// Opens temporary files.
    pub opener: Arc<Opener>,
    /// When the copy first began, if this run continues it.
    pub resumed_since: Option<Time>,
    /// Renames the one entry of a copy to a single name.
    pub single_name: Option<Vec<u8>>,
    /// Big files of an earlier run by path: slot, state of the source, durable chunks.
    pub partials: Mutex<BTreeMap<RelPath, (u64, Identity, u32, ChunkSet)>>,
    /// Slots given so far.
    pub next_slot: Mutex<u64>,
    /// Generations by index, for restarts.
    pub generations: Mutex<BTreeMap<u64, u8>>,
    /// Numbers of commits, for directories with temporary names.
    pub epochs: Arc<Epochs>,
    /// Directories told to the journal in this epoch.
    pub touched: Mutex<(u64, std::collections::HashSet<RelPath>)>,
}

/// An answer of the decider.
pub struct Decided {
    /// What came of looking.
    pub decision: Decision,
    /// The device (`st_dev`) of a directory that was there: it may be another one than that of the directory it is in.
    pub device: Option<u64>,
}

impl From<Decision> for Decided {
    fn from(decision: Decision) -> Decided {
        Decided { decision, device: None }
    }
}

impl Decider {
    /// Looks at the place of an entry and creates it if it has no content. What is to be received is written to the
    /// disk of this number.
    pub fn decide(&self, index: u64, entry: &Entry, lane: u8) -> Decided {
        if let Some(name) = self.own_name(entry) {
            let why = format!(
                "{}: `{}` is a name that a copy gives its own files at its destination: rename it at the source",
                entry.path,
                name.escape_ascii()
            );
            return Decision::Settled(Outcome::Failed(why)).into();
        }
        let decided = match &entry.kind {
            EntryKind::Dir => self.directory(entry),
            EntryKind::Symlink { target } => self.symlink(entry, target).map(Decided::from),
            EntryKind::HardLink { target } => self.hard_link(entry, target).map(Decided::from),
            EntryKind::File(_) | EntryKind::Stream => self.file(index, entry, lane).map(Decided::from),
        };
        decided.unwrap_or_else(|error| {
            Decision::Settled(Outcome::Failed(say(&format!("preparing {}", entry.path), &error))).into()
        })
    }

    /// The name, in the path of an entry or that it links to, that would meet what a copy makes for itself. Sources leave such out.
    fn own_name<'a>(&'a self, entry: &'a Entry) -> Option<&'a [u8]> {
        let link = match &entry.kind {
            EntryKind::HardLink { target } => Some(target),
            _ => None,
        };
        let paths = [Some(&entry.path), link].into_iter().flatten().map(RelPath::as_bytes);
        let mut names = paths.chain(self.single_name.as_deref()).flat_map(|path| path.split(|byte| *byte == b'/'));
        names.find(|name| is_own_name(name))
    }

    /// Waits before a big file is opened while those of all sessions have half of the process's descriptors, until some are
    /// published or `is_over`; not for ever, for what frees them may wait behind this entry.
    pub fn wait_for_descriptors(&self, entry: &Entry, is_over: impl Fn() -> bool) {
        let is_big = entry.size().is_none_or(|size| size > u64::from(self.small_max));
        if !matches!(entry.kind, EntryKind::File(_)) || !is_big {
            return;
        }
        let limit = sys::cpu::nofile_limit().soft.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        for _ in 0..LOOKS_MAX {
            if Counted::open() < (limit / 2 / DESCRIPTORS).max(1) || is_over() {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Where an entry goes: its directory and the name in it.
    fn spot<'a>(&self, entry: &'a Entry) -> io::Result<(RelPath, Arc<Dir>, &'a [u8])> {
        let parent = entry.path.parent().unwrap_or_default();
        let dir = self.place.dir(&parent)?;
        Ok((parent, dir, entry.path.name()))
    }

    fn existing(&self, parent: &RelPath, dir: &Dir, name: &[u8]) -> io::Result<Option<Meta>> {
        if self.place.is_fresh(parent) {
            return Ok(None);
        }
        match dir.stat(name) {
            Ok(meta) => Ok(Some(meta)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn directory(&self, entry: &Entry) -> io::Result<Decided> {
        let ready_on = |meta: &Meta| Decided { decision: Decision::DirReady, device: Some(meta.dev) };
        if entry.path.is_root() {
            return Ok(Decision::DirReady.into());
        }
        if self.options.dry_run {
            let there = self.place.root.stat(entry.path.as_bytes()).ok().filter(|m| m.kind == Kind::Dir);
            // What is there is walked, so that what would be deleted in it is named.
            return Ok(there.map_or(Decision::Settled(Outcome::Would).into(), |meta| ready_on(&meta)));
        }
        let (parent, dir, name) = self.spot(entry)?;
        match self.existing(&parent, &dir, name)? {
            Some(meta) if meta.kind == Kind::Dir => {
                self.place.met(&entry.path, meta.dev);
                return Ok(ready_on(&meta));
            }
            Some(meta) => {
                return Ok(Decision::Settled(Outcome::Failed(in_the_way(entry, meta.kind, "directory"))).into());
            }
            None => {
                // The owner's bits make it usable while it is filled; its own are set when it is closed.
                match dir.mkdir(name, (entry.mode & 0o777) | 0o700) {
                    Ok(()) => self.place.made(&entry.path),
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(Decision::DirReady.into())
    }

    fn symlink(&self, entry: &Entry, target: &[u8]) -> io::Result<Decision> {
        if self.options.dry_run && self.dir_is_missing(entry) {
            return Ok(Decision::Settled(Outcome::Would));
        }
        let (parent, dir, name) = self.spot(entry)?;
        let existing = self.existing(&parent, &dir, name)?;
        if let Some(meta) = existing {
            if meta.kind == Kind::Symlink && dir.readlink(name)? == target {
                return Ok(Decision::Settled(Outcome::Equal));
            }
            if meta.kind == Kind::Dir {
                return Ok(Decision::Settled(Outcome::Failed(in_the_way(entry, meta.kind, "symbolic link"))));
            }
            if self.options.overwrite == Overwrite::Never {
                return Ok(Decision::Settled(Outcome::Kept));
            }
        }
        if self.options.dry_run {
            return Ok(Decision::Settled(Outcome::Would));
        }
        let temp = self.temp(&entry.path, 0, &parent)?;
        remove_if_there(&dir, &temp)?;
        dir.symlink(target, &temp)?;
        self.place.left_out.owner(entry, |owner| dir.chown_nofollow(&temp, owner))?;
        let _ = dir.set_times_nofollow(&temp, Times::mtime(nanoseconds(entry.mtime)));
        dir.rename(&temp, name)?;
        Ok(Decision::Settled(Outcome::Placed))
    }

    fn hard_link(&self, entry: &Entry, target: &RelPath) -> io::Result<Decision> {
        if self.options.dry_run && self.dir_is_missing(entry) {
            return Ok(Decision::Settled(Outcome::Would));
        }
        let (parent, dir, name) = self.spot(entry)?;
        let first = self.place.root.stat(target.as_bytes())?;
        if let Some(meta) = self.existing(&parent, &dir, name)? {
            if meta.is_same_file(&first) {
                return Ok(Decision::Settled(Outcome::Equal));
            }
            if self.options.overwrite == Overwrite::Never {
                return Ok(Decision::Settled(Outcome::Kept));
            }
        }
        if self.options.dry_run {
            return Ok(Decision::Settled(Outcome::Would));
        }
        let temp = self.temp(&entry.path, 0, &parent)?;
        remove_if_there(&dir, &temp)?;
        let mut full = parent.as_bytes().to_vec();
        if !full.is_empty() {
            full.push(b'/');
        }
        full.extend_from_slice(&temp);
        self.place.root.link(target.as_bytes(), &full)?;
        dir.rename(&temp, name)?;
        Ok(Decision::Settled(Outcome::Placed))
    }

    fn dir_is_missing(&self, entry: &Entry) -> bool {
        let parent = entry.path.parent().unwrap_or_default();
        self.place.dir(&parent).is_err()
    }

    fn file(&self, index: u64, entry: &Entry, lane: u8) -> io::Result<Decision> {
        if self.options.dry_run && self.dir_is_missing(entry) {
            return Ok(Decision::Settled(Outcome::Would));
        }
        let (parent, dir, name) = self.spot(entry)?;
        if entry.kind == EntryKind::Stream && self.single_name.is_none() {
            let why = "what comes from standard input has no name: end the destination in the file's name, not in a directory";
            return Ok(Decision::Settled(Outcome::Failed(why.to_owned())));
        }
        let name = self.single_name.as_deref().unwrap_or(name);
        let existing = self.existing(&parent, &dir, name)?;
        if let Some(meta) = &existing
            && let Some(decision) = self.against(entry, meta, &dir, name, lane)?
        {
            if matches!(decision, Decision::Compare { .. }) && !self.options.dry_run {
                self.prepare(index, entry, parent, &dir, lane, true)?;
            }
            return Ok(decision);
        }
        if self.options.dry_run {
            return Ok(Decision::Settled(Outcome::Would));
        }
        let have = self.prepare(index, entry, parent, &dir, lane, false)?;
        Ok(Decision::Receive { have, disk: lane })
    }

    /// What a file that is there means; `None` if it is to be replaced.
    fn against(&self, entry: &Entry, meta: &Meta, dir: &Dir, name: &[u8], lane: u8) -> io::Result<Option<Decision>> {
        if meta.kind == Kind::Dir {
            return Ok(Some(Decision::Settled(Outcome::Failed(in_the_way(entry, meta.kind, "file")))));
        }
        let settled = |outcome| Ok(Some(Decision::Settled(outcome)));
        let stays = self.options.overwrite == Overwrite::Never;
        let otherwise = || Ok(stays.then_some(Decision::Settled(Outcome::Kept)));
        let EntryKind::File(identity) = &entry.kind else { return otherwise() };
        if meta.kind != Kind::File || meta.size != identity.size {
            return otherwise();
        }
        let same_time = is_same_time(time(meta.mtime_ns), entry.mtime);
        if stays {
            // A copy that was tried again is told apart from one that finds something else at its place.
            return settled(if same_time { Outcome::Equal } else { Outcome::Kept });
        }
        // What an interrupted run of the same copy published is complete: it was durable before it got its name.
        let published = self.resumed_since.is_some_and(|since| same_time && time(meta.ctime_ns) >= since);
        if published {
            return settled(Outcome::Equal);
        }
        if self.options.overwrite == Overwrite::Changed {
            if self.options.by_checksum {
                let digest = digest_of(dir, name)?;
                return Ok(Some(Decision::Compare { digest, disk: lane }));
            }
            if same_time {
                if !self.options.dry_run {
                    self.refresh(entry, meta, dir, name)?;
                }
                return settled(Outcome::Equal);
            }
        }
        Ok(None)
    }

    /// Brings what describes a file of equal content to what its entry says.
    fn refresh(&self, entry: &Entry, meta: &Meta, dir: &Dir, name: &[u8]) -> io::Result<()> {
        let preserve = self.place.preserves(self.options.preserve_all);
        let has_owner = entry.owner.is_none_or(|owner| owner == (meta.uid, meta.gid));
        if let Some(left_out) = preserve.filter(|_| !has_owner || !entry.xattrs.is_empty()) {
            let file = open_to_describe(dir, name)?;
            if !has_owner {
                return attributes(&file, entry, preserve);
            }
            left_out.xattrs(&file, entry)?;
        }
        if meta.mode != entry.mode { dir.chmod(name, entry.mode) } else { Ok(()) }
    }

    /// Makes ready to receive a file; gives the chunks that an earlier run left. What `may_be_equal` gets its temporary file only
    /// when something arrives: an equal file may stand where none can be made, or fill a disk that has no room for it twice.
    fn prepare(
        &self,
        index: u64,
        entry: &Entry,
        parent: RelPath,
        dir: &Dir,
        lane: u8,
        may_be_equal: bool,
    ) -> io::Result<ChunkSet> {
        let generation = self.generations.lock().expect("no panic under the lock").get(&index).copied().unwrap_or(0);
        let small = entry.size().is_some_and(|size| size <= u64::from(self.small_max));
        let temp = self.temp(&entry.path, generation, &parent)?;
        let mut target = Target::new(index, generation, entry.clone(), parent, temp, lane);
        let mut have = ChunkSet::new();
        if !small {
            let slot;
            (slot, have) = self.slot(entry, generation, dir, &target.temp)?;
            target.big = Some(Big::new(slot, self.opener.clone()));
            if !may_be_equal || !have.is_empty() {
                target.open(&have)?;
            }
        }
        self.targets.insert(Arc::new(target));
        Ok(have)
    }

    /// The number of a big file in the journal, and what is durable of it if it was begun before.
    fn slot(&self, entry: &Entry, generation: u8, dir: &Dir, temp: &[u8]) -> io::Result<(u64, ChunkSet)> {
        let EntryKind::File(identity) = entry.kind else { return Ok((u64::MAX, ChunkSet::new())) };
        let left = self.partials.lock().expect("no panic under the lock").remove(&entry.path);
        // The journal is for all disks: none is asked anything under its lock.
        let is_there = left.is_some() && dir.stat(temp).is_ok_and(|meta| meta.kind == Kind::File);
        let journal = self.journal.as_ref().expect("files are received only with a journal");
        let mut journal = journal.lock().expect("no panic under the lock");
        let mut claimed = false;
        if let Some((slot, was, chunk_size, chunks)) = left {
            if was == identity
                && chunk_size == self.chunk_size
                && generation == 0
                && chunks.ranges().len() <= HAVE_RANGES_MAX
                && is_there
            {
                return Ok((slot, chunks));
            }
            journal.push(Record::Close { slot });
            claimed = !chunks.is_empty();
        }
        let slot = {
            let mut next = self.next_slot.lock().expect("no panic under the lock");
            *next += 1;
            *next
        };
        journal.push(Record::Partial { slot, path: entry.path.clone(), identity, chunk_size: self.chunk_size });
        // A new file takes the temporary name: no crash may bring back what was said of the old one's chunks.
        journal.write(claimed)?;
        Ok((slot, ChunkSet::new()))
    }

    /// Throws away what has arrived of a file.
    pub fn discard(&self, index: u64) {
        *self.generations.lock().expect("no panic under the lock").entry(index).or_default() += 1;
        let Some(target) = self.targets.remove(index) else { return };
        target.kill();
        if let Some(slot) = target.slot()
            && let Some(journal) = &self.journal
        {
            journal.lock().expect("no panic under the lock").push(Record::Close { slot });
        }
        if let Ok(dir) = self.place.dir(&target.parent) {
            let _ = remove_if_there(&dir, &target.temp);
        }
    }

    /// The temporary name of a path; tells the journal first that such a name may stand in its directory.
    fn temp(&self, path: &RelPath, generation: u8, parent: &RelPath) -> io::Result<Vec<u8>> {
        let mut touched = self.touched.lock().expect("no panic under the lock");
        let epoch = self.epochs.next();
        if touched.0 != epoch {
            *touched = (epoch, std::collections::HashSet::new());
        }
        if touched.1.insert(parent.clone())
            && let Some(journal) = &self.journal
        {
            let mut journal = journal.lock().expect("no panic under the lock");
            journal.push(Record::Touched { epoch, dirs: vec![parent.clone()] });
            journal.write(false)?;
        }
        // Others may be writing other names in the same directory, from sources of the same name.
        Ok(Target::temp_name(self.single_name.as_deref().unwrap_or(path.as_bytes()), generation))
    }
}

/// Whether a file that is there has the time of its source, as far as its file system keeps times: it may cut them to 100 ns (SMB),
/// to micro- or milliseconds, or to seconds (ext4 with small inodes).
fn is_same_time(there: Time, source: Time) -> bool {
    const STEPS_NS: [u32; 5] = [1, 100, 1_000, 1_000_000, 1_000_000_000];
    there.sec == source.sec && STEPS_NS.iter().any(|step| there.nsec == source.nsec - source.nsec % step)
}

fn in_the_way(entry: &Entry, kind: Kind, wanted: &str) -> String {
    let what = match kind {
        Kind::Dir => "a directory",
        Kind::Symlink => "a symbolic link",
        Kind::File => "a file",
        _ => "a special file",
    };
    format!("{}: {what} stands where a {wanted} should go; remove it or choose another destination", entry.path)
}

/// Removes a name left by a run that was killed.
pub(crate) fn remove_if_there(dir: &Dir, name: &[u8]) -> io::Result<()> {
    match dir.unlink(name) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// BLAKE3 of a file that is there.
fn digest_of(dir: &Dir, name: &[u8]) -> io::Result<[u8; 32]> {
    let file = dir.open_file(name, OpenFlags::read())?;
    digest_of_open(&file)
}

/// BLAKE3 of an open file.
///
/// # Errors
/// When it cannot be read.
pub fn digest_of_open(file: &std::os::fd::OwnedFd) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut buf = vec![0; COMPARE_BYTES];
    let mut at = 0;
    loop {
        let n = sys::file::read_exact_at(file, &mut buf, at)?;
        hasher.update(&buf[..n]);
        at += n as u64;
        if n < buf.len() {
            return Ok(*hasher.finalize().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_as_far_as_the_file_system_keeps_them() {
        let same = |there, source| {
            is_same_time(Time { sec: 1_700_000_000, nsec: there }, Time { sec: 1_700_000_000, nsec: source })
        };
        for kept in [123_456_789, 123_456_700, 123_456_000, 123_000_000, 0] {
            assert!(same(kept, 123_456_789), "{kept}");
        }
        for other in [123_456_788, 123_456_800, 123_455_000, 124_000_000, 1] {
            assert!(!same(other, 123_456_789), "{other}");
        }
        assert!(!same(123_456_789, 0));
        let later = Time { sec: 1_700_000_001, nsec: 0 };
        assert!(!is_same_time(later, Time { sec: 1_700_000_000, nsec: 999_999_999 }));
    }
}
