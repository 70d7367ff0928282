//! The hooks of one session, whichever end it is: which are run, and what is waited for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::RelPath;
use tokio::sync::mpsc;

use super::{Context, NEWS_MAX, SessionError};
use crate::hook::pool::{Done, HookPool, Job};
use crate::hook::{HookError, Moment, Occasion, Programs, Site, TIME_MAX, Verdict, run};
use crate::session::tally::Tally;

/// Files in place whose hook has not ended; the scan waits at this number.
const AFTER_MAX: usize = 4096;
/// How long hooks of files in place may take when the session failed: whoever connects again waits for them.
pub const GRACE: Duration = Duration::from_secs(60);
/// How long the hook after a dataset may take when this end was told to stop.
pub const STOPPED_TIME_MAX: Duration = Duration::from_secs(5);

/// Why a file has failed that [`SessionHooks::file`] does not take.
pub const TOO_MANY: &str = "too many files wait for their hook, or no thread can be had for it: run the copy again";

/// The hooks of a session. Dropping it kills those that run.
pub struct SessionHooks {
    programs: Programs,
    site: Site,
    driver: bool,
    /// The dataset may be read or written.
    open: bool,
    /// The hook after the dataset is this session's, and has not been run.
    owes_after: bool,
    before: Option<HookPool>,
    after: Option<HookPool>,
    tell: mpsc::Sender<Done>,
    /// What came of hooks.
    pub done: mpsc::Receiver<Done>,
    stop: Arc<AtomicBool>,
    /// Hooks after files, and of datasets, that have not ended.
    waited_for: usize,
}

impl SessionHooks {
    /// Starts what the session's hooks need. `root` gives the directory of this end; it is asked only if there are
    /// hooks.
    ///
    /// # Errors
    /// When that directory has no path.
    pub fn start(
        context: &Context,
        role: &'static str,
        root: impl FnOnce() -> std::io::Result<PathBuf>,
    ) -> Result<SessionHooks, SessionError> {
        let programs = context.programs.clone();
        let hooks = &programs.hooks;
        let any = *hooks != crate::request::Hooks::default();
        let doing = "finding the directory that hooks are told of";
        let root = if any { root() } else { Ok(PathBuf::new()) };
        let root = root.map_err(|error| SessionError::Os { doing: doing.to_owned(), error })?;
        let session = context.session.iter().map(|b| format!("{b:02x}")).collect();
        let site = Site { role, session, root };
        let (tell, done) = mpsc::channel(NEWS_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let pool = |moment| hooks.of(moment).map(|_| HookPool::start(moment, &programs, &site, &tell, &stop));
        let (before, after) = (pool(Moment::BeforeFile), pool(Moment::AfterFile));
        let mut all = SessionHooks {
            site,
            driver: context.driver,
            open: false,
            owes_after: false,
            before,
            after,
            tell,
            done,
            stop,
            waited_for: 0,
            programs,
        };
        if all.programs.is_ready() {
            all.open();
        } else {
            all.dataset(Moment::BeforeDataset, Occasion::default(), TIME_MAX);
        }
        Ok(all)
    }

    fn open(&mut self) {
        self.open = true;
        self.programs.begin(self.site.clone());
        // A command may need several sessions; it runs the hook after its dataset itself.
        self.owes_after = !self.driver && self.programs.hooks.of(Moment::AfterDataset).is_some();
    }

    /// True when the dataset may be read or written.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Takes the end of the hook before the dataset.
    ///
    /// # Errors
    /// When the hook refuses the dataset.
    pub fn opened(&mut self, verdict: Result<Verdict, HookError>) -> Result<(), SessionError> {
        verdict.map_err(|error| SessionError::Fatal(format!("{error}; nothing was copied")))?;
        self.open();
        Ok(())
    }

    /// True if there are hooks of files.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.before.is_some() || self.after.is_some()
    }

    /// True if there is a hook before or after files.
    #[must_use]
    pub fn has(&self, moment: Moment) -> bool {
        self.pool(moment).is_some()
    }

    fn pool(&self, moment: Moment) -> Option<&HookPool> {
        if moment == Moment::BeforeFile { self.before.as_ref() } else { self.after.as_ref() }
    }

    /// Queues a file for its hook, whose end comes by [`SessionHooks::done`]; false if it cannot wait.
    #[must_use]
    pub fn file(&mut self, moment: Moment, job: Job) -> bool {
        let given = self.pool(moment).is_some_and(|pool| pool.give(job));
        self.waited_for += usize::from(given && moment == Moment::AfterFile);
        given
    }

    /// Leaves the hook after a file to the next session of the same copy: the file may be in place by then.
    pub fn owe(&self, path: &RelPath) {
        if self.after.is_some() {
            self.programs.owe(path);
        }
    }

    /// True, once, if an earlier session has left the hook after a file to this one.
    #[must_use]
    pub fn take_owed(&self, path: &RelPath) -> bool {
        self.after.is_some() && self.programs.take_owed(path)
    }

    /// Notes that a hook has ended.
    pub fn ended(&mut self, done: &Done) {
        self.waited_for -= usize::from(done.moment != Moment::BeforeFile);
    }

    /// True while the scan may go on.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.waited_for < AFTER_MAX
    }

    /// True if the session may end: hooks of files in place and of the dataset have ended.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waited_for == 0
    }

    /// Begins the hook after the dataset, if it is this session's; true if it was begun.
    pub fn end_dataset(&mut self, ok: bool, tally: &Tally, time_max: Duration) -> bool {
        let owed = std::mem::take(&mut self.owes_after);
        if owed {
            let occasion = Occasion {
                outcome: Some(if ok && tally.failed == 0 { "ok" } else { "failed" }),
                files: Some(tally.files_total),
                bytes: Some(tally.bytes_total),
                ..Occasion::default()
            };
            self.dataset(Moment::AfterDataset, occasion, time_max);
        }
        owed
    }

    /// True if the hook after the dataset is this session's and has not been run.
    #[must_use]
    pub fn owes_after(&self) -> bool {
        self.owes_after
    }

    fn dataset(&mut self, moment: Moment, occasion: Occasion, time_max: Duration) {
        self.waited_for += 1;
        let (hooks, site) = (self.programs.hooks.clone(), self.site.clone());
        let (tell, stop) = (self.tell.clone(), self.stop.clone());
        tokio::task::spawn_blocking(move || {
            let verdict = run(&hooks, moment, (&site, &occasion), &stop, time_max);
            // A session that is gone needs no news.
            let _ = tell.blocking_send(Done { moment, index: 0, name: RelPath::root(), verdict, entry: None });
        });
    }

    /// Waits for hooks of a session that is over, within `patience`. What they say comes too late for anybody.
    pub async fn run_out(&mut self, patience: Duration) {
        let all = async {
            while !self.is_idle() {
                let Some(done) = self.done.recv().await else { break };
                self.ended(&done);
            }
        };
        let _ = tokio::time::timeout(patience, all).await;
    }

    /// Kills what runs and waits for the threads.
    pub async fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.done.close();
        // Threads that are joined must not hold the session's task up.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Drop for SessionHooks {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.done.close();
    }
}
