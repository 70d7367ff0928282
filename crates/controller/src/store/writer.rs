//! One thread owns the log; requests that wait while it writes are written together, with one `fsync`.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::error::StoreError;
use super::log::{APPEND_BYTES_MAX, APPEND_EVENTS_MAX, Log, check_sizes};

/// Requests that wait; one more is told that the store is busy.
pub const QUEUE_REQUESTS_MAX: usize = 4_096;
/// Bytes of events that wait; a request that would make it more is told that the store is busy (one alone always fits).
pub const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Events and bytes that are written together, unless one request alone has more: it bounds how long the last of them waits.
const BATCH_EVENTS_MAX: usize = 4_096;
const BATCH_BYTES_MAX: usize = 8 << 20;
const _: () = assert!(BATCH_EVENTS_MAX <= APPEND_EVENTS_MAX && BATCH_BYTES_MAX <= APPEND_BYTES_MAX);

/// Why an append did not come to be.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// Too many wait.
    #[error("the store is busy, {waiting} requests wait to be written: try again in a second")]
    Busy {
        /// Requests in the queue.
        waiting: usize,
    },
    /// The writer was stopped, or its thread died.
    #[error("the store is closed: the controller stops")]
    Stopped,
    /// The store refused. Those written together share it.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

/// Resolves with the number of the request's first event when all of it is on stable storage. Waits for ever at most as long as
/// the disk; an error of the receiver itself means that the writer died.
pub type Receipt<T> = oneshot::Receiver<Result<T, AppendError>>;

/// The thread that owns the log. When this goes, what waits is written first.
pub struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<Log>>,
}

struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    bytes: usize,
    is_stopped: bool,
}

enum Request {
    Append {
        events: Vec<(u64, Vec<u8>)>,
        bytes: usize,
        done: oneshot::Sender<Result<u64, AppendError>>,
    },
    /// Something else with the log, in its turn.
    With {
        work: Box<dyn FnOnce(&mut Log) + Send>,
        bytes: usize,
    },
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(log: Log) -> std::io::Result<Writer> {
        let queue = Arc::new(Queue { waiting: Mutex::default(), changed: Condvar::new() });
        let mine = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
            let _closed = CloseOnEnd(&mine);
            write_all(&mine, log)
        })?;
        Ok(Writer { queue, thread: Some(thread) })
    }

    /// Puts events into the queue. Their numbers follow the order of the calls.
    ///
    /// # Errors
    /// At once when the queue is full, the writer stopped, or the request is more than an append may be.
    pub fn append(&self, events: Vec<(u64, Vec<u8>)>) -> Result<Receipt<u64>, AppendError> {
        check_sizes(&events).map_err(|error| AppendError::Store(Arc::new(error)))?;
        let bytes = events.iter().map(|(_, bytes)| bytes.len()).sum();
        let (done, receipt) = oneshot::channel();
        self.push(Request::Append { events, bytes, done }, bytes)?;
        Ok(receipt)
    }

    /// As [`Log::snapshot`], after everything that waits.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn snapshot(&self, number: u64, state: Vec<u8>) -> Result<Receipt<()>, AppendError> {
        let bytes = state.len();
        self.with_bytes(bytes, move |log| log.snapshot(number, state))
    }

    /// As [`Log::trim`], after everything that waits.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn trim(&self) -> Result<Receipt<u64>, AppendError> {
        self.with(Log::trim)
    }

    /// Does something with the log between two batches; nothing is written meanwhile.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Log) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Receipt<T>, AppendError> {
        self.with_bytes(0, work)
    }

    fn with_bytes<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut Log) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Receipt<T>, AppendError> {
        let (done, receipt) = oneshot::channel();
        let work = move |log: &mut Log| {
            // Whoever asked may have gone.
            let _ = done.send(work(log).map_err(|error| AppendError::Store(Arc::new(error))));
        };
        self.push(Request::With { work: Box::new(work), bytes }, bytes)?;
        Ok(receipt)
    }

    fn push(&self, request: Request, bytes: usize) -> Result<(), AppendError> {
        let mut waiting = self.queue.lock();
        if waiting.is_stopped {
            return Err(AppendError::Stopped);
        }
        let is_too_much = waiting.bytes > 0 && waiting.bytes + bytes > QUEUE_BYTES_MAX;
        if waiting.requests.len() >= QUEUE_REQUESTS_MAX || is_too_much {
            return Err(AppendError::Busy { waiting: waiting.requests.len() });
        }
        waiting.bytes += bytes;
        waiting.requests.push_back(request);
        self.queue.changed.notify_one();
        Ok(())
    }

    /// Requests in the queue.
    pub fn waiting(&self) -> usize {
        self.queue.lock().requests.len()
    }

    /// Takes nothing more, writes what waits, and gives the log back; `None` if its thread panicked.
    pub fn stop(mut self) -> Option<Log> {
        self.close();
        self.thread.take()?.join().ok()
    }

    fn close(&self) {
        self.queue.lock().is_stopped = true;
        self.queue.changed.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // What a panic said is on standard error already.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it is held.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However the thread ends, nobody waits for it: the queue takes no more, and receipts of what is in it are dropped.
struct CloseOnEnd<'a>(&'a Queue);

impl Drop for CloseOnEnd<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_stopped = true;
        waiting.requests.clear();
    }
}

type Batch = (Vec<(u64, Vec<u8>)>, Vec<(usize, oneshot::Sender<Result<u64, AppendError>>)>);

enum Work {
    Batch(Batch),
    With(Box<dyn FnOnce(&mut Log) + Send>),
}

fn write_all(queue: &Queue, mut log: Log) -> Log {
    while let Some(work) = next(queue) {
        match work {
            Work::With(work) => work(&mut log),
            Work::Batch((events, receipts)) => tell(receipts, log.append(&events)),
        }
    }
    log
}

fn tell(receipts: Vec<(usize, oneshot::Sender<Result<u64, AppendError>>)>, outcome: Result<u64, StoreError>) {
    let outcome = outcome.map_err(|error| AppendError::Store(Arc::new(error)));
    let mut before = 0;
    for (count, done) in receipts {
        // Whoever asked may have gone.
        let _ = done.send(outcome.clone().map(|first| first + before));
        before += count as u64;
    }
}

/// Waits for work: one request of another kind, or as many appends as may be written together. `None` once stopped and empty.
fn next(queue: &Queue) -> Option<Work> {
    let mut waiting = queue.lock();
    while waiting.requests.is_empty() {
        if waiting.is_stopped {
            return None;
        }
        waiting = queue.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
    }
    let (mut together, mut receipts, mut size) = (Vec::new(), Vec::new(), 0);
    loop {
        match waiting.requests.front() {
            Some(Request::Append { events, bytes, .. })
                if receipts.is_empty()
                    || (together.len() + events.len() <= BATCH_EVENTS_MAX && size + bytes <= BATCH_BYTES_MAX) => {}
            Some(Request::With { .. }) if receipts.is_empty() => {}
            _ => return Some(Work::Batch((together, receipts))),
        }
        match waiting.requests.pop_front()? {
            Request::With { work, bytes } => {
                waiting.bytes -= bytes;
                return Some(Work::With(work));
            }
            Request::Append { events, bytes, done } => {
                waiting.bytes -= bytes;
                size += bytes;
                receipts.push((events.len(), done));
                together.extend(events);
            }
        }
    }
}
