//! The begin of a destination session: lock, journal, threads.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use crossbeam_channel::bounded;
use proto::RelPath;
use proto::destination::Destination;
use proto::journal::Record;
use tokio::sync::mpsc;

use super::{Ask, BATCH_WRITERS, Session, Setup};
use crate::filter::Filter;
use crate::frame::Pool;
use crate::io::commit::{Commit, Committer};
use crate::io::decide::Decider;
use crate::io::delete::Deleter;
use crate::io::place::{Place, PlaceError, Scope};
use crate::io::target::Targets;
use crate::io::write;
use crate::report::Outlook;
use crate::session::hooks::SessionHooks;
use crate::session::receiving::{Queues, Receiving, wakers};
use crate::session::source::{End, small_max};
use crate::session::tally::Tally;
use crate::session::{NEWS_MAX, SessionError, Wire, storage_io};

/// Threads that write chunks where io_uring is not to be had.
const PLAIN_WRITERS: usize = 4;
/// Decisions and commits waiting; the session's task holds further ones back.
const WORK_MAX: usize = 1 << 17;

impl Session {
    pub(super) fn start(setup: &mut Setup, end: &mut End) -> Result<Session, SessionError> {
        let options = setup.options.clone();
        let chunk_size = setup.context.settings.chunk_size;
        let filter = Filter::new(&options.filters).map_err(|e| SessionError::Fatal(e.to_string()))?;
        let (place, journal) = if options.dry_run {
            (Place::look(setup.root.clone()).map_err(place_error)?, None)
        } else {
            let scope = match (&setup.single_name, setup.single) {
                (Some(name), _) => Scope::Name(name.clone()),
                (None, _) => Scope::Tree,
            };
            let (place, journal) =
                Place::lock(setup.root.clone(), &scope, &setup.label, &setup.holder).map_err(place_error)?;
            (place, Some(journal))
        };
        if setup.root_is_new {
            place.made(&RelPath::root());
        }
        let place = Arc::new(place);
        let os = |doing: &str| {
            let doing = doing.to_owned();
            move |error| SessionError::Os { doing, error }
        };
        let mut resumed_since = None;
        let mut partials = BTreeMap::new();
        let journal = match journal {
            None => None,
            Some(mut journal) => {
                let same = journal.resumed && journal.state().source_key == setup.source_key;
                if same {
                    resumed_since = Some(journal.state().started);
                }
                let state = journal.state().clone();
                place.sweep(&state, same, setup.single_name.as_deref());
                if !same {
                    let started = journal.now().map_err(os("reading the file system's time"))?;
                    journal.push(Record::Start {
                        version: proto::journal::VERSION,
                        source_key: setup.source_key,
                        started,
                    });
                    journal.restart().map_err(os("writing the journal"))?;
                }
                for (slot, p) in &journal.state().partials {
                    partials.insert(p.path.clone(), (*slot, p.identity, p.chunk_size, p.chunks.clone()));
                }
                journal.write(true).map_err(os("writing the journal"))?;
                Some(Arc::new(Mutex::new(journal)))
            }
        };
        let wakers = wakers().map_err(os("waking threads"))?;
        let frames = (setup.context.memory_bytes / u64::from(chunk_size)).clamp(8, 4096) as usize;
        let pool = Pool::new(frames, chunk_size as usize, wakers.clone()).map_err(os("getting memory for buffers"))?;
        let targets = Arc::new(Targets::default());
        let epoch = Arc::new(AtomicU64::new(1));
        let (tell_decided, decided) = mpsc::channel(NEWS_MAX);
        let (tell_written, written) = mpsc::channel(NEWS_MAX);
        let (tell_committed, committed) = mpsc::channel(NEWS_MAX);
        let mut threads = Vec::new();
        let mut spawn = |name: String, run: Box<dyn FnOnce() + Send>| {
            threads.extend(std::thread::Builder::new().name(name).spawn(run));
        };

        let next_slot = partials.values().map(|p| p.0).max().unwrap_or(0);
        let decider = Decider {
            place: place.clone(),
            targets: targets.clone(),
            journal: journal.clone(),
            options: options.clone(),
            chunk_size,
            small_max: small_max(chunk_size),
            io: setup.context.limits.io,
            resumed_since,
            single_name: setup.single_name.clone(),
            partials: Mutex::new(partials),
            next_slot: Mutex::new(next_slot),
            generations: Mutex::default(),
            epoch: epoch.clone(),
            touched: Mutex::new((0, HashSet::new())),
            no_direct: OnceLock::new(),
        };
        let (decisions, asks) = bounded::<Ask>(WORK_MAX);
        let answered = Arc::new(AtomicU64::new(0));
        let (count, would) = (answered.clone(), tell_committed.clone());
        let deleter = Deleter { place: place.clone(), filter: filter.clone(), dry_run: true };
        spawn(
            "lh-decide".to_owned(),
            Box::new(move || {
                while let Ok(ask) = asks.recv() {
                    match ask {
                        Ask::Decide(index, entry) => {
                            let decision = decider.decide(index, *entry);
                            if tell_decided.blocking_send((index, decision)).is_err() {
                                break;
                            }
                        }
                        Ask::Discard(index) => {
                            decider.discard(index);
                            count.fetch_add(1, Ordering::Release);
                        }
                        Ask::WouldDelete { dir, keep } => {
                            deleter.delete(&dir, &keep, &would);
                            count.fetch_add(1, Ordering::Release);
                        }
                    }
                }
            }),
        );

        let write = Arc::new(write::Shared {
            place: place.clone(),
            targets: targets.clone(),
            pool: pool.clone(),
            events: tell_written,
            preserve_all: options.preserve_all,
            busy_us: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        let (chunks, chunk_queue) = bounded(pool.count());
        let (batches, batch_queue) = bounded(pool.count());
        let rings = crate::io::rings(setup.context.limits.io, write::RING_DEPTH, PLAIN_WRITERS);
        end.outlook.io = Some(storage_io(&rings));
        for (n, ring) in rings.into_iter().enumerate() {
            let (shared, queue) = (write.clone(), chunk_queue.clone());
            spawn(format!("lh-write-{n}"), Box::new(move || write::write_chunks(&shared, &queue, ring)));
        }
        for n in 0..BATCH_WRITERS {
            let (shared, queue) = (write.clone(), batch_queue.clone());
            spawn(format!("lh-files-{n}"), Box::new(move || write::write_batches(&shared, &queue)));
        }

        let (commits, commit_queue) = bounded::<Commit>(WORK_MAX);
        if let Some(journal) = &journal {
            let committer = Committer {
                chunk_size: u64::from(chunk_size),
                place: place.clone(),
                targets: targets.clone(),
                journal: journal.clone(),
                overwrite: options.overwrite,
                preserve_all: options.preserve_all,
                deleter: Deleter { place: place.clone(), filter, dry_run: false },
                single_name: setup.single_name.clone(),
                epoch,
                events: tell_committed,
            };
            spawn("lh-commit".to_owned(), Box::new(move || committer.run(&commit_queue)));
        }

        let hooks = SessionHooks::start(&setup.context, "destination", || setup.root.path())?;
        let machine = Destination::new(proto::destination::Config {
            chunk_size,
            delete: options.delete,
            links: options.preserve_all,
        });
        let mut context = setup.context.take();
        let wire = Wire::of(&mut context);
        let receiving = Receiving::new(&mut context, pool, wakers, Queues { chunks, batches });
        Ok(Session {
            machine,
            wire,
            receiving: Some(receiving),
            decisions: Some(decisions),
            commits: Some(commits),
            threads,
            decided,
            written,
            committed,
            targets,
            place: Some(place),
            write: Some(write),
            journal,
            entries: BTreeMap::new(),
            changed: HashSet::new(),
            asked: 0,
            answered,
            closing: VecDeque::new(),
            root_entry: None,
            flushed: false,
            context,
            setup_options: options,
            every_file: setup.every_file,
            hooks,
            held: HashMap::new(),
            last: None,
            single_name: setup.single_name.clone(),
            end: End { tally: Tally::default(), outlook: Outlook::default() },
            last_second: Instant::now(),
            write_busy_before: 0,
            bye: None,
        })
    }
}

fn place_error(error: PlaceError) -> SessionError {
    match error {
        PlaceError::Busy { .. } => SessionError::Busy(error.to_string()),
        PlaceError::Os { doing, error } => SessionError::Os { doing, error },
    }
}
