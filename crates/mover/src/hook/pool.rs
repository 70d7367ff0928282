//! Threads that run the hooks of files, beside everything that moves data.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use proto::{Entry, RelPath};
use sys::file::Dir;
use tokio::sync::mpsc;

use super::{HookError, Moment, Occasion, Programs, Site, TIME_MAX, Verdict, run};
use crate::scan::{SourceRef, entry_of};

/// Hooks of one moment that run at once.
pub const THREADS: usize = 4;
/// Files waiting for one moment's hook. More than the protocol's window of entries, and the scan waits for the rest.
const WAITING_MAX: usize = 1 << 17;

/// A file for a hook.
#[derive(Debug)]
pub struct Job {
    /// Its index in the manifest.
    pub index: u64,
    /// Its path in the manifest, for messages.
    pub name: RelPath,
    /// What the hook is told.
    pub occasion: Occasion,
    /// A file of the source is looked at again after its hook.
    pub look: Option<Look>,
}

/// How to look at a file of the source.
#[derive(Debug)]
pub struct Look {
    /// The directory that the sources lie beneath.
    pub root: Dir,
    /// Where the file is.
    pub place: SourceRef,
    /// Attributes beyond mode and time are kept.
    pub preserve_all: bool,
}

/// What came of a hook.
#[derive(Debug)]
pub struct Done {
    /// Which one it was.
    pub moment: Moment,
    /// Index of the file; 0 for a dataset.
    pub index: u64,
    /// Its path in the manifest; the root for a dataset.
    pub name: RelPath,
    /// What the hook said.
    pub verdict: Result<Verdict, HookError>,
    /// What the file is after it, if it was to be looked at.
    pub entry: Option<std::io::Result<Entry>>,
}

/// The threads of one moment.
pub struct HookPool {
    queue: Option<Sender<Box<Job>>>,
    threads: Vec<JoinHandle<()>>,
}

impl HookPool {
    /// Starts the threads; what came of hooks goes to `tell`, and all of them are killed when `stop` turns true. Hooks
    /// after files that have not begun by then are owed.
    #[must_use]
    pub fn start(
        moment: Moment,
        programs: &Programs,
        site: &Site,
        tell: &mpsc::Sender<Done>,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let (queue, jobs) = bounded::<Box<Job>>(WAITING_MAX);
        let mut threads = Vec::with_capacity(THREADS);
        for n in 0..THREADS {
            let (programs, site, tell, stop, jobs) =
                (programs.clone(), site.clone(), tell.clone(), stop.clone(), jobs.clone());
            let work = move || serve(moment, (&programs, &site), &jobs, &tell, &stop);
            threads.extend(std::thread::Builder::new().name(format!("lh-hook-{n}")).spawn(work));
        }
        HookPool { queue: Some(queue), threads }
    }

    /// Queues a file; false if no more can wait or no thread could be had.
    #[must_use]
    pub fn give(&self, job: Job) -> bool {
        let queue = self.queue.as_ref().expect("open until dropped");
        !self.threads.is_empty() && !matches!(queue.try_send(Box::new(job)), Err(TrySendError::Full(_)))
    }
}

impl Drop for HookPool {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(
    moment: Moment,
    (programs, site): (&Programs, &Site),
    jobs: &Receiver<Box<Job>>,
    tell: &mpsc::Sender<Done>,
    stop: &AtomicBool,
) {
    while let Ok(job) = jobs.recv() {
        let Job { index, name, occasion, look } = *job;
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            if moment == Moment::AfterFile {
                programs.owe(&name);
            }
            continue;
        }
        let verdict = run(&programs.hooks, moment, (site, &occasion), stop, TIME_MAX);
        let entry = look.map(|look| entry_of(&look.root, &look.place, &name, look.preserve_all));
        // Nobody hears of it when the session is over; then what waits is owed.
        let _ = tell.blocking_send(Done { moment, index, name, verdict, entry });
    }
}
