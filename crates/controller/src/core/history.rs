//! The archive, on a thread of its own: a slow disk, or a long answer, holds up nobody but those who ask for history.
//!
//! What comes is done in turn. While more waits than [`JOBS_MAX`], samples and plannings are dropped: the archive may be lost.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::store::{Archive, StoreError};

/// What waits for the archive: two minutes of samples.
const JOBS_MAX: usize = 128;

/// Something that is done with the archive.
enum Job {
    /// Values by series, at a time, ms since 1970.
    Samples(u64, Vec<(String, f64)>),
    /// A planning, by the number of the event before it.
    Planning(u64, Vec<u8>),
    Look(Look),
    End,
}

/// Looks at the archive.
pub(crate) type Look = Box<dyn FnOnce(&mut Archive) + Send>;

/// The archive at work.
pub(crate) struct History {
    jobs: SyncSender<Job>,
    thread: Option<JoinHandle<()>>,
    /// Jobs are dropped, and that was told.
    is_full: bool,
}

/// A way to the archive for those who look.
pub(crate) struct Reader(SyncSender<Job>);

/// Why a look was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shut {
    /// It has too much to do.
    Busy,
    /// It has ended.
    Ended,
}

impl Reader {
    /// Has somebody look, in turn; never waits.
    pub(crate) fn look(&self, look: Look) -> Result<(), Shut> {
        self.0.try_send(Job::Look(look)).map_err(|error| match error {
            TrySendError::Full(_) => Shut::Busy,
            TrySendError::Disconnected(_) => Shut::Ended,
        })
    }
}

impl History {
    /// Puts the archive to work.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(super) fn of(archive: Archive) -> io::Result<History> {
        let (jobs, comes) = sync_channel(JOBS_MAX);
        let thread = std::thread::Builder::new().name("archive".to_owned()).spawn(move || work(archive, &comes))?;
        Ok(History { jobs, thread: Some(thread), is_full: false })
    }

    /// Keeps samples of one moment.
    pub(super) fn samples(&mut self, at_ms: u64, values: Vec<(String, f64)>) {
        self.give(Job::Samples(at_ms, values));
    }

    /// Keeps a planning, by the number of the event before it.
    pub(super) fn keep_planning(&mut self, after: u64, bytes: Vec<u8>) {
        self.give(Job::Planning(after, bytes));
    }

    /// For those who look.
    pub(crate) fn reader(&self) -> Reader {
        Reader(self.jobs.clone())
    }

    fn give(&mut self, job: Job) {
        let is_full = self.jobs.try_send(job).is_err();
        if is_full && !self.is_full {
            tracing::warn!("the archive does not keep up: samples and plannings are dropped until it does");
        }
        self.is_full = is_full;
    }

    /// Writes all that came, and ends.
    pub(super) fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // An error: it has ended already, by a panic that its thread told.
        let _ = self.jobs.send(Job::End);
        let _ = thread.join();
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.end();
    }
}

fn work(mut archive: Archive, jobs: &Receiver<Job>) {
    let mut told = Told::default();
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Samples(at_ms, values) => {
                let samples: Vec<(&str, f64)> = values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                let taken = archive.push(at_ms, &samples);
                told.tell(&taken, archive.pending() == 0);
            }
            Job::Planning(after, bytes) => {
                if let Err(error) = archive.keep_planning(after, &bytes) {
                    tracing::warn!(error = &error as &dyn std::error::Error, "a planning is not kept");
                }
            }
            Job::Look(look) => look(&mut archive),
            Job::End => break,
        }
    }
    if let Err(error) = archive.flush() {
        tracing::warn!(error = &error as &dyn std::error::Error, "samples of the last minute are lost");
    }
}

/// What was said of troubles: each once, not each second.
#[derive(Debug, Default)]
struct Told {
    refused: bool,
    series: bool,
}

impl Told {
    fn tell(&mut self, taken: &Result<(), StoreError>, is_written: bool) {
        match taken {
            Ok(()) if is_written && self.refused => {
                self.refused = false;
                tracing::info!("samples are written again");
            }
            Err(error @ StoreError::Series { .. }) if !self.series => {
                self.series = true;
                tracing::warn!(error = error as &dyn std::error::Error, "a series is not kept");
            }
            Err(StoreError::Series { .. }) | Ok(()) => {}
            Err(error) if !self.refused => {
                self.refused = true;
                let error = error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "samples cannot be written: they wait, and the oldest go when there are too many"
                );
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Place, open};

    #[test]
    fn a_slow_archive_holds_up_nobody_and_ends_in_good_order() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(&Place::Directory(directory.path().to_owned())).expect("a store");
        let (jobs, comes) = sync_channel(JOBS_MAX);
        let mut history = History { jobs, thread: None, is_full: false };
        for second in 0..2 * JOBS_MAX as u64 {
            history.samples(1_000 * second, vec![("a".to_owned(), 1.0)]);
        }
        assert!(history.is_full, "what is too much is dropped");
        let reader = history.reader();
        assert_eq!(reader.look(Box::new(|_| ())), Err(Shut::Busy));
        let archive = Archive::open(&*store).expect("an archive");
        history.thread = Some(std::thread::spawn(move || work(archive, &comes)));
        history.end();
        assert_eq!(reader.look(Box::new(|_| ())), Err(Shut::Ended));
        let mut archive = Archive::open(&*store).expect("an archive");
        let points = archive.query("a", 0, 1_000_000, 1_000).expect("points").points;
        assert_eq!(points.iter().map(|point| point.count).sum::<u32>(), JOBS_MAX as u32);
    }

    #[test]
    fn a_trouble_is_told_once() {
        let refused = || Err(StoreError::Series { name: "a".to_owned(), why: "no" });
        let mut told = Told::default();
        told.tell(&refused(), false);
        told.tell(&Ok(()), true);
        assert!(told.series && !told.refused, "a series that cannot be kept stays so");
        told.refused = true;
        told.tell(&Ok(()), false);
        assert!(told.refused, "what waits is not written yet");
        told.tell(&Ok(()), true);
        assert!(!told.refused);
    }
}
