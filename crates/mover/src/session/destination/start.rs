//! The begin of a destination session: lock, journal, threads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crossbeam_channel::bounded;
use proto::RelPath;
use proto::destination::Destination;
use proto::journal::Record;
use tokio::sync::mpsc;

use super::lanes::{Kit, Lanes};
use super::{Session, Setup};
use crate::filter::Filter;
use crate::frame::{Pool, frames};
use crate::io::arrivals::Arrivals;
use crate::io::busy::DiskBusy;
use crate::io::commit::Committer;
use crate::io::decide::Decider;
use crate::io::delete::Deleter;
use crate::io::epochs::Epochs;
use crate::io::open::Opener;
use crate::io::place::{Place, PlaceError, Scope};
use crate::io::target::Targets;
use crate::io::write;
use crate::net::backlog::Backlog;
use crate::report::Outlook;
use crate::session::hooks::SessionHooks;
use crate::session::receiving::{Queues, Receiving, wakers};
use crate::session::source::{End, small_max};
use crate::session::tally::Tally;
use crate::session::{NEWS_MAX, SessionError, Wire};

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
                (None, false) if setup.is_shared => Scope::Part(setup.source_key),
                (None, _) => Scope::Tree,
            };
            let (place, journal) =
                Place::lock(setup.root.clone(), &scope, &setup.label, &setup.holder).map_err(place_error)?;
            (place, Some(journal))
        };
        if setup.root_is_new && !setup.is_shared {
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
                let mut state = journal.state().clone();
                if setup.is_shared {
                    // What other copies have under temporary names looks like what this one left.
                    state.touched.clear();
                }
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
        let placement = setup.context.placement.clone();
        let wakers = wakers(&placement).map_err(os("waking threads"))?;
        let frames = frames(setup.context.memory_bytes, chunk_size);
        let pool = Pool::new(frames, chunk_size as usize, wakers.clone(), placement)
            .map_err(os("getting memory for buffers"))?;
        let targets = Arc::new(Targets::default());
        let epochs = Arc::new(Epochs::default());
        let (tell_decided, decided) = mpsc::channel(NEWS_MAX);
        let (tell_written, written) = mpsc::channel(NEWS_MAX);
        let (tell_committed, committed) = mpsc::channel(NEWS_MAX);
        let next_slot = partials.values().map(|p| p.0).max().unwrap_or(0);
        let decider = Decider {
            place: place.clone(),
            targets: targets.clone(),
            journal: journal.clone(),
            options: options.clone(),
            chunk_size,
            small_max: small_max(chunk_size),
            opener: Arc::new(Opener::new(place.clone(), setup.context.limits.io)),
            resumed_since,
            single_name: setup.single_name.clone(),
            partials: Mutex::new(partials),
            next_slot: Mutex::new(next_slot),
            generations: Mutex::default(),
            epochs: epochs.clone(),
            touched: Mutex::new((0, HashSet::new())),
        };
        let deleter = |dry_run| Deleter { place: place.clone(), filter: filter.clone(), dry_run };
        let committer = journal.as_ref().map(|journal| Committer {
            chunk_size: u64::from(chunk_size),
            place: place.clone(),
            targets: targets.clone(),
            journal: journal.clone(),
            overwrite: options.overwrite,
            preserve_all: options.preserve_all,
            deleter: deleter(false),
            single_name: setup.single_name.clone(),
            epochs,
            lane: 0,
            events: tell_committed.clone(),
            busy: Arc::default(),
        });
        let (chunks, chunk_queue) = bounded(pool.count());
        let (batches, batch_queue) = bounded(pool.count());
        let arrivals = Arc::new(Arrivals::new(chunk_queue, batch_queue, targets.clone(), pool.clone()));
        let write = write::Shared {
            place: place.clone(),
            targets: targets.clone(),
            arrivals: arrivals.clone(),
            pool: pool.clone(),
            events: tell_written,
            preserve_all: options.preserve_all,
            busy: DiskBusy::default(),
        };
        let kit = Kit {
            decider: Arc::new(decider),
            deleter: deleter(true),
            committer,
            write,
            arrivals,
            io: setup.context.limits.io,
            decided: tell_decided,
            committed: tell_committed,
        };
        let lanes = Lanes::start(kit, place.dev).map_err(os("starting writers"))?;
        end.outlook.io = Some(lanes.io());

        let hooks = SessionHooks::start(&setup.context, "destination", || setup.root.path())?;
        let machine = Destination::new(proto::destination::Config {
            chunk_size,
            delete: options.delete,
            links: options.preserve_all,
            dry_run: options.dry_run,
        });
        let mut context = setup.context.take();
        let wire = Wire::of(&mut context);
        let backlog = Some(Backlog::new(Instant::now()));
        let receiving = Receiving::new(&mut context, pool, wakers, Queues { chunks, batches, backlog });
        Ok(Session {
            machine,
            wire,
            receiving: Some(receiving),
            lanes: Some(lanes),
            decided,
            written,
            committed,
            targets,
            place: Some(place),
            journal,
            entries: BTreeMap::new(),
            changed: HashSet::new(),
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
