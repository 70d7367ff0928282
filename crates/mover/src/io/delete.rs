//! Deleting at the destination what the source does not have.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use proto::RelPath;
use sys::file::Kind;
use tokio::sync::mpsc;

use super::commit::CommitEvent;
use super::place::{Place, STATE_DIR};
use super::say;
use super::target::TEMP_PREFIX;
use crate::filter::Filter;

/// Names of one directory that a deletion looks at; larger directories are left alone with a warning.
const DELETE_NAMES_MAX: usize = 4 << 20;

/// Deletes, or only says what it would.
#[derive(Clone)]
pub struct Deleter {
    /// The destination.
    pub place: Arc<Place>,
    /// What the filters leave out is not deleted.
    pub filter: Filter,
    /// Nothing is changed.
    pub dry_run: bool,
}

impl Deleter {
    /// Deletes in a directory what is not kept, and tells.
    pub fn delete(&self, dir: &RelPath, keep: &BTreeSet<Vec<u8>>, events: &mpsc::Sender<CommitEvent>) {
        if self.place.is_fresh(dir) {
            return;
        }
        let mut deleted = Vec::new();
        if let Err(error) = self.delete_in(dir, Some(keep), &mut deleted) {
            let _ = events.blocking_send(CommitEvent::Warning(say(&format!("deleting in {dir}"), &error)));
        }
        if !deleted.is_empty() {
            // A session that is gone needs no news.
            let _ = events.blocking_send(CommitEvent::Deleted { paths: deleted });
        }
    }

    /// Deletes in a directory what is not kept; with `None` everything. True if something stays that is not kept:
    /// what the filters leave out.
    fn delete_in(
        &self,
        path: &RelPath,
        keep: Option<&BTreeSet<Vec<u8>>>,
        deleted: &mut Vec<RelPath>,
    ) -> io::Result<bool> {
        let dir = self.place.dir(path)?;
        let (mut names, mut stays) = (Vec::new(), false);
        for entry in dir.read_dir(b"")? {
            let entry = entry?;
            let ours = entry.name == STATE_DIR || (keep.is_some() && entry.name.starts_with(TEMP_PREFIX));
            if !ours && keep.is_none_or(|k| !k.contains(&entry.name)) {
                names.push(entry.name);
            }
            if names.len() > DELETE_NAMES_MAX {
                return Err(io::Error::other(format!("more than {DELETE_NAMES_MAX} names to delete in one directory")));
            }
        }
        for name in names {
            // A path too long to be named stays.
            let Ok(inner) = path.join(&name) else {
                stays = true;
                continue;
            };
            let is_dir = dir.stat(&name)?.kind == Kind::Dir;
            if self.filter.matches(&inner, is_dir) {
                stays = true;
                continue;
            }
            if is_dir {
                let kept = self.delete_in(&inner, None, deleted)?;
                self.place.close(&inner);
                if kept {
                    stays = true;
                    continue;
                }
                if !self.dry_run {
                    dir.rmdir(&name)?;
                }
            } else if !self.dry_run {
                dir.unlink(&name)?;
            }
            deleted.push(inner);
        }
        Ok(stays)
    }
}
