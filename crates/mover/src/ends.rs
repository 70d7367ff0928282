//! Finding the two ends of a copy: from paths as a user writes them, to directories and names.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto::RelPath;
use proto::control::{Code, Direction, Refusal};
use sys::file::{Dir, Kind};

use crate::request::Place;
use crate::scan::SourceSpec;
use crate::server::Grant;

/// Why an end cannot be used; one line for the user.
pub type EndError = Refusal;

fn bad(text: String) -> EndError {
    Refusal { code: Code::Path, text }
}

/// The sources of a copy.
pub struct Sources {
    /// A directory that all of them lie beneath.
    pub root: Dir,
    /// The sources beneath it.
    pub specs: Vec<SourceSpec>,
    /// True if there is one, and it is no directory.
    pub single: bool,
    /// Names them, so that a destination knows an interrupted copy of the same.
    pub key: [u8; 16],
}

/// The destination of a copy.
pub struct Target {
    /// The directory that is written into.
    pub root: Dir,
    /// True if it was made for this copy.
    pub is_new: bool,
    /// New name of the one source.
    pub single_name: Option<Vec<u8>>,
    /// For messages.
    pub label: String,
    /// Other copies may write other names into it at the same time.
    pub is_shared: bool,
}

/// The sources of a copy that this end drives.
///
/// # Errors
/// When a path cannot be used, or the place is not at this end.
pub fn driven_sources(place: &Place, names: Vec<RelPath>) -> Result<Sources, EndError> {
    match place {
        Place::Local(paths) => local_sources(paths, names),
        Place::Served(grant, paths) => granted_sources(&**grant, paths, names),
        Place::Pipe | Place::Agent(..) => Err(bad("the source is not a path at this end".to_owned())),
    }
}

/// The destination of a copy that this end drives.
///
/// # Errors
/// When it cannot be made or used, or the place is not at this end.
pub fn driven_target(place: &Place, single: bool, dry_run: bool) -> Result<Target, EndError> {
    match place {
        Place::Local(paths) => match paths.as_slice() {
            [path] => local_target(path, single, dry_run),
            _ => Err(bad("a copy has one destination".to_owned())),
        },
        Place::Served(grant, paths) => match paths.as_slice() {
            [path] => granted_target(grant, path, single, dry_run),
            _ => Err(bad("a copy has one destination".to_owned())),
        },
        Place::Pipe | Place::Agent(..) => Err(bad("the destination is not a path at this end".to_owned())),
    }
}

/// Paths of this host as sources. The user's own links on the way are followed; what is copied is not.
///
/// # Errors
/// When a path does not exist or cannot be looked at.
pub fn local_sources(paths: &[PathBuf], names: Vec<RelPath>) -> Result<Sources, EndError> {
    let root = Dir::open("/").map_err(|e| bad(format!("opening /: {e}")))?;
    let mut found = Vec::new();
    for path in paths {
        let bytes = path.as_os_str().as_bytes();
        let inside = bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes == b".";
        let shown = path.display();
        let failed = |e: io::Error| bad(format!("{shown}: {e}"));
        let real = if inside || path.file_name().is_none() {
            std::fs::canonicalize(path).map_err(failed)?
        } else {
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let name = path.file_name().ok_or_else(|| bad(format!("{shown} names nothing")))?;
            std::fs::canonicalize(parent).map_err(failed)?.join(name)
        };
        let bytes = real.as_os_str().as_bytes();
        let path = bytes.strip_prefix(b"/").unwrap_or(bytes).to_vec();
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default().to_vec();
        found.push(Found { inside: inside || path.is_empty(), path, name, shown: shown.to_string() });
    }
    let host = sys::process::hostname();
    sources(root, found, names, &host, false)
}

/// Paths at an agent as sources, each beneath one of its roots.
///
/// # Errors
/// When a path is beneath no root that may be read, or two are beneath different ones.
pub fn granted_sources(grant: &dyn Grant, paths: &[Vec<u8>], names: Vec<RelPath>) -> Result<Sources, EndError> {
    let mut root = None;
    let mut found = Vec::new();
    for path in paths {
        let inside = path.ends_with(b"/");
        let (dir, rel) = grant.resolve(Direction::Pull, path)?;
        let meta = dir.stat(b"").map_err(|e| bad(e.to_string()))?;
        match &root {
            None => root = Some((dir, meta)),
            Some((_, first)) if first.is_same_file(&meta) => {}
            Some(_) => {
                return Err(bad(
                    "sources of one copy must lie beneath one root of the agent: copy them one after the other"
                        .to_owned(),
                ));
            }
        }
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default().to_vec();
        found.push(Found {
            path: rel.into(),
            inside: inside || name.is_empty(),
            name,
            shown: String::from_utf8_lossy(path).into_owned(),
        });
    }
    let (root, _) = root.ok_or_else(|| bad("no source is named".to_owned()))?;
    // Agents of several hosts have tokens of one name, and copy into one place.
    let who = format!("{} at {}", grant.name(), sys::process::hostname());
    sources(root, found, names, &who, grant.is_shared())
}

/// One source as it was named.
struct Found {
    /// Beneath the root.
    path: Vec<u8>,
    /// What is in it is meant, not itself.
    inside: bool,
    /// Its name at the destination.
    name: Vec<u8>,
    /// For messages.
    shown: String,
}

fn sources(
    root: Dir,
    found: Vec<Found>,
    mut names: Vec<RelPath>,
    who: &str,
    is_shared: bool,
) -> Result<Sources, EndError> {
    if !names.is_empty() && found.len() > 1 {
        return Err(bad("names can be picked from one source only: copy the sources one after the other".to_owned()));
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(who.as_bytes());
    // Copies of parts of one directory are told apart by what they are of.
    for name in names.iter().filter(|_| is_shared) {
        hasher.update(&(name.as_bytes().len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    let mut specs = Vec::new();
    let mut single = found.len() == 1;
    for Found { path, inside, name, shown } in found {
        let meta = root.stat(&path).map_err(|e| bad(format!("{shown}: {e}")))?;
        let is_dir = meta.kind == Kind::Dir;
        if (inside || !names.is_empty()) && !is_dir {
            return Err(bad(format!("{shown} is not a directory")));
        }
        let contents_only = inside || !names.is_empty();
        single &= !is_dir && !contents_only;
        hasher.update(&(path.len() as u64).to_le_bytes());
        hasher.update(&path);
        hasher.update(&[u8::from(contents_only)]);
        specs.push(SourceSpec { path, contents_only, name, names: std::mem::take(&mut names) });
    }
    let key = hasher.finalize().as_bytes()[..16].try_into().expect("16 bytes");
    Ok(Sources { root, specs, single, key })
}

/// A path of this host as destination. Missing directories are made, unless nothing is to change.
///
/// # Errors
/// When it cannot be made or used.
pub fn local_target(path: &Path, single: bool, dry_run: bool) -> Result<Target, EndError> {
    let label = path.display().to_string();
    let failed = |e: io::Error| bad(format!("{label}: {e}"));
    let slash = path.as_os_str().as_bytes().ends_with(b"/");
    let (dir, single_name) = if single && !slash && !path.is_dir() {
        let name = path.file_name().ok_or_else(|| bad(format!("{label} is no name for a file")))?;
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        (parent.to_path_buf(), Some(name.as_bytes().to_vec()))
    } else {
        (path.to_path_buf(), None)
    };
    let is_new = !dir.exists();
    if is_new && dry_run {
        let root = Dir::open("/").map_err(failed)?;
        return Ok(Target { root, is_new, single_name, label, is_shared: false });
    }
    if is_new {
        std::fs::create_dir_all(&dir).map_err(failed)?;
    }
    let root = Dir::open(&dir).map_err(failed)?;
    Ok(Target { root, is_new, single_name, label, is_shared: false })
}

/// A path at an agent as destination, beneath one of its roots.
///
/// # Errors
/// When it is beneath no root that may be written, or cannot be made.
pub fn granted_target(grant: &Arc<dyn Grant>, path: &[u8], single: bool, dry_run: bool) -> Result<Target, EndError> {
    let label = String::from_utf8_lossy(path).into_owned();
    let failed = |e: io::Error| bad(format!("{label}: {e}"));
    let slash = path.ends_with(b"/");
    let (root, rel) = grant.resolve(Direction::Push, path)?;
    let existing = match root.stat(rel.as_bytes()) {
        Ok(meta) => Some(meta.kind),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(failed(e)),
    };
    let (dir, single_name) = if single && !slash && existing != Some(Kind::Dir) {
        let parent = rel.parent().ok_or_else(|| bad(format!("{label} is a root and no name for a file")))?;
        (parent, Some(rel.name().to_vec()))
    } else {
        (rel, None)
    };
    let is_new = root.stat(dir.as_bytes()).is_err();
    let is_shared = grant.is_shared();
    if is_new && dry_run {
        return Ok(Target { root, is_new, single_name, label, is_shared });
    }
    let root = if dir.is_root() { root } else { root.mkdir_all(dir.as_bytes(), 0o777).map_err(failed)? };
    Ok(Target { root, is_new, single_name, label, is_shared })
}
