//! What a controller asks, and what comes of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::agent::{
    Acknowledged, After, Cause, Failed, FromAgent, LeaseFor, List, Mode, PAGES_AHEAD, Prepare, Prepared, Role, Run,
    ToAgent, Welcome,
};
use mover::request::Fingerprint;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::cause::shown;
use super::grants::{Asker, PathGrant};
use super::listing::{ListError, Listing};
use super::order::{self, No};
use super::session::{Driven, drive};
use super::tokens::{Ending, TokenError};
use super::{Site, lock, now};

/// Listings at once.
pub(super) const LISTINGS_MAX: usize = 8;
/// Paths that are looked at at once before their session begins.
pub(super) const LOOKS_MAX: usize = 64;

/// What belongs to one connection.
pub(super) struct Asked {
    site: Arc<Site>,
    controller: Fingerprint,
    /// Pages that may be sent of each listing.
    listings: Arc<Mutex<BTreeMap<u64, Arc<Semaphore>>>>,
    looks: Arc<Semaphore>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        // Nobody waits for further pages.
        lock(&self.listings).values().for_each(|pages| pages.close());
    }
}

impl Asked {
    pub(super) fn new(site: Arc<Site>, controller: Fingerprint) -> Asked {
        Asked { site, controller, listings: Arc::default(), looks: Arc::new(Semaphore::new(LOOKS_MAX)) }
    }

    /// Of the sessions that go on the controller keeps some.
    pub(super) fn keep(&self, welcome: &Welcome) {
        for driven in lock(&self.site.sessions).values().filter(|driven| !welcome.keep.contains(&driven.session)) {
            tracing::warn!(session = driven.session, "the controller does not want this session any more");
            driven.stop(Cause::Stopped);
        }
    }

    /// Does what is asked, or says why not. Nothing in here waits.
    pub(super) fn hear(&self, message: ToAgent) {
        match message {
            ToAgent::List(list) => self.list(list),
            ToAgent::Taken { request, .. } => {
                if let Some(pages) =
                    lock(&self.listings).get(&request).filter(|p| p.available_permits() < PAGES_AHEAD as usize)
                {
                    pages.add_permits(1);
                }
            }
            ToAgent::Prepare(prepare) => self.prepare(prepare),
            ToAgent::Revoke { session } => self.site.tokens.revoke(session),
            ToAgent::Run(run) => {
                let session = run.session;
                if let Err(no) = self.run(*run) {
                    self.no(None, Some(session), no);
                }
            }
            ToAgent::Lease(lease) => self.lease(lease),
            ToAgent::Probes { probes } => drop(self.site.probes.send_replace(probes)),
            ToAgent::Path(path) => {
                if let Some(driven) = lock(&self.site.sessions).get(&path.session) {
                    driven.go_over(path);
                }
            }
            ToAgent::Uncounted(uncounted) => {
                let (link, reason) = (shown(&uncounted.link), shown(&uncounted.reason));
                tracing::warn!(link, reason, "the controller leaves aside what is counted for a link");
            }
            ToAgent::Stop { session } => self.stop(session),
            // A second welcome says nothing new.
            ToAgent::Ping | ToAgent::Welcome(_) | ToAgent::Turned(_) => {}
        }
    }

    fn no(&self, request: Option<u64>, session: Option<u64>, No { cause, text }: No) {
        tracing::info!(?request, ?session, ?cause, text, "not done for the controller");
        self.site.say(FromAgent::Failed(Failed { request, session, cause, text }));
    }

    /// What covers a path.
    fn grant(&self, collaboration: &str, role: Role, path: &[u8]) -> Result<PathGrant, No> {
        let asker = Asker { controller: self.controller, collaboration };
        let found = self.site.grants.find(asker, role, path, &self.site.hooks);
        found.map_err(|text| No::new(Cause::NotGranted, &text))
    }

    fn list(&self, list: List) {
        let request = list.request;
        let grant = match self.grant(&list.collaboration, Role::Source, &list.path.0) {
            Ok(grant) => grant,
            Err(no) => return self.no(Some(request), None, no),
        };
        let pages = Arc::new(Semaphore::new(PAGES_AHEAD as usize));
        let mut listings = lock(&self.listings);
        let is_known = listings.contains_key(&request);
        if is_known || listings.len() >= LISTINGS_MAX {
            let (cause, text) = match is_known {
                true => (Cause::Other, format!("request {request} is under way: number each listing anew")),
                false => (Cause::Busy, format!("this host lists {LISTINGS_MAX} paths already: wait until one is done")),
            };
            drop(listings);
            return self.no(Some(request), None, No::new(cause, &text));
        }
        listings.insert(request, pages.clone());
        drop(listings);
        let (site, listings) = (self.site.clone(), self.listings.clone());
        let runtime = tokio::runtime::Handle::current();
        spawn_blocking(move || {
            let told = pages_of(&grant, request, list.after, |page| {
                let Ok(permit) = runtime.block_on(pages.acquire()) else { return false };
                permit.forget();
                site.say(FromAgent::Listed(page));
                true
            });
            if let Err(error) = told {
                site.say(error.of_request(request));
            }
            lock(&listings).remove(&request);
        });
    }

    fn prepare(&self, prepare: Prepare) {
        let session = prepare.session;
        let granted = match self.site.decided() {
            Mode::Active => self.grant(&prepare.collaboration, prepare.role, &prepare.path.0),
            mode => Err(leaving(mode)),
        };
        let look = self.looks.clone().try_acquire_owned();
        let busy = || No::new(Cause::Busy, "this host looks at as many paths as it may: ask again");
        match (granted, look) {
            (Err(no), _) => self.no(None, Some(session), no),
            (Ok(_), Err(_)) => self.no(None, Some(session), busy()),
            (Ok(grant), Ok(look)) => {
                let site = self.site.clone();
                spawn_blocking(move || {
                    let answer = match prepared(&site, &prepare, grant) {
                        Ok(token) => FromAgent::Prepared(Prepared { session, token }),
                        Err(No { cause, text }) => {
                            FromAgent::Failed(Failed { request: None, session: Some(session), cause, text })
                        }
                    };
                    site.say(answer);
                    drop(look);
                });
            }
        }
    }

    fn run(&self, run: Run) -> Result<(), No> {
        let session = run.session;
        if let Some(driven) = lock(&self.site.sessions).get(&session).cloned() {
            if driven.is_stopping() {
                return Err(No::new(Cause::Busy, "a session of this number is ending at this host: ask for another"));
            }
            // It was asked for before a connection was lost; it goes on.
            let told = driven.offer(run.lease).map_err(|error| No::new(Cause::Other, &error.to_string()))?;
            self.site.say(FromAgent::Acknowledged(told));
            return Ok(());
        }
        if lock(&self.site.outbox).sessions().any(|told| told == session) {
            // What is told of it would be taken for what this one does.
            return Err(No::new(Cause::Busy, "a session of this number has ended at this host: ask for another"));
        }
        match self.site.decided() {
            Mode::Active => {}
            mode => return Err(leaving(mode)),
        }
        let look = self.looks.clone().try_acquire_owned();
        let look = look.map_err(|_| No::new(Cause::Busy, "this host looks at as many paths as it may: ask again"))?;
        let grant = self.grant(&run.collaboration, run.role, &run.here.0)?;
        let order = order::check(&run, &grant, self.site.limits.clone())?;
        let most_bps = grant.rate_bps().into_iter().chain(self.site.fixed.bounds.rate_bps).min();
        let driven = Driven::new(&run, &order.label, most_bps);
        let driven = Arc::new(driven.map_err(|error| No::new(Cause::Other, &error.to_string()))?);
        let sessions_max = self.site.fixed.sessions_max;
        let has_place = lock(&self.site.sessions).len() < sessions_max && lock(&self.site.outbox).begin(session);
        if !has_place {
            let text = format!("this host drives {sessions_max} sessions already: wait until one ends");
            return Err(No::new(Cause::Busy, &text));
        }
        self.site.begun(&driven);
        let held = driven.held();
        let (generation, rate_bps) = (held.generation, held.rate_bps);
        self.site.say(FromAgent::Acknowledged(Acknowledged { session, generation, accepted: true, rate_bps }));
        let site = self.site.clone();
        tokio::spawn(async move {
            // What is wrong with the path here is told before the other end is bothered.
            let fit = spawn_blocking(move || fit(&run, &grant)).await.unwrap_or(Ok(()));
            drop(look);
            match fit {
                Ok(()) => drive(site, driven, order).await,
                Err(No { cause, text }) => {
                    site.tell(|outbox| outbox.forget(session));
                    site.over(session);
                    site.say(FromAgent::Failed(Failed { request: None, session: Some(session), cause, text }));
                }
            }
        });
        Ok(())
    }

    /// Ends a session at whichever end this host is. One that another host drives is told over when it is: its driver tells nothing if it
    /// has no connection to the controller, and sends nothing more when this end is gone.
    fn stop(&self, session: u64) {
        if let Some(driven) = lock(&self.site.sessions).get(&session) {
            return driven.stop(Cause::Stopped);
        }
        if lock(&self.site.outbox).sessions().any(|told| told == session) {
            // It has ended, and that is about to be told.
            return;
        }
        let over = move |site: &Site| {
            let text = "nothing of this session runs at this host any more".to_owned();
            site.say(FromAgent::Failed(Failed { request: None, session: Some(session), cause: Cause::Stopped, text }));
        };
        match self.site.tokens.end(session) {
            Ending::Over => over(&self.site),
            Ending::Told => {}
            Ending::Soon(standing) => {
                tracing::info!(session, "the controller ends a session that another host drives");
                let site = self.site.clone();
                tokio::spawn(async move {
                    standing.closed().await;
                    over(&site);
                });
            }
        }
    }

    fn lease(&self, LeaseFor { session, lease }: LeaseFor) {
        let generation = lease.generation;
        let driven = lock(&self.site.sessions).get(&session).cloned();
        let told = match driven {
            Some(driven) => driven.offer(lease).map_err(|error| No::new(Cause::Other, &error.to_string())),
            // Its end is under way to the controller, or was never begun.
            None => Ok(Acknowledged { session, generation, accepted: false, rate_bps: 0 }),
        };
        match told {
            Ok(told) => self.site.say(FromAgent::Acknowledged(told)),
            Err(no) => self.no(None, Some(session), no),
        }
    }
}

fn leaving(mode: Mode) -> No {
    let doing = if mode == Mode::Paused { "is paused" } else { "drains" };
    let text = format!("this host {doing}, as its operator decided: use another, or wait until it is resumed");
    No::new(Cause::Leaving, &text)
}

/// Gives the pages of a listing to `give`, until it says that nobody wants more.
fn pages_of(
    grant: &PathGrant,
    request: u64,
    after: Option<After>,
    mut give: impl FnMut(api::agent::Listed) -> bool,
) -> Result<(), ListError> {
    let mut listing = Listing::begin(grant)?;
    if let Some(after) = after {
        listing.go_on(&after)?;
    }
    while let Some(page) = listing.page(request)? {
        if !give(page) {
            break;
        }
    }
    Ok(())
}

fn prepared(site: &Site, prepare: &Prepare, grant: PathGrant) -> Result<String, No> {
    look(&grant, prepare.role)?;
    let made = site.tokens.make(prepare.session, grant, Duration::from_millis(prepare.good_ms), now());
    made.map_err(|error| {
        let cause = if matches!(error, TokenError::Full) { Cause::Busy } else { Cause::Other };
        No::new(cause, &error.to_string())
    })
}

/// Whether the path can be used at all.
fn look(grant: &PathGrant, role: Role) -> Result<sys::file::Kind, No> {
    let failed =
        |error: std::io::Error| No::new(super::cause::of_io(&error), &format!("cannot open {}: {error}", grant.path()));
    let (root, rel) = grant.open().map_err(failed)?;
    match root.stat(rel.as_bytes()) {
        Ok(meta) => Ok(meta.kind),
        // A destination is made.
        Err(error) if role == Role::Destination && error.kind() == std::io::ErrorKind::NotFound => {
            Ok(sys::file::Kind::Dir)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Whether the path at this host is what the order takes it for.
fn fit(run: &Run, grant: &PathGrant) -> Result<(), No> {
    let kind = look(grant, run.role)?;
    let is_dir = matches!(kind, sys::file::Kind::Dir);
    match (run.role, run.names.is_empty()) {
        (Role::Source, true) if is_dir => {
            let text = format!("{} is a directory: name what is to be copied of it", grant.path());
            Err(No::new(Cause::Other, &text))
        }
        (Role::Destination, false) if !is_dir && kind != sys::file::Kind::Symlink => {
            Err(No::new(Cause::Exists, &format!("{} is there and no directory", grant.path())))
        }
        _ => Ok(()),
    }
}
