//! From an end as the user named it to a place that the mover can reach.

pub(crate) mod address;
pub(crate) mod ssh;

use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use agent::{LocalAgent, OneshotOptions};
use anyhow::{Context, Result};
use mover::request::{Fingerprint, Judge, Limits, Place, Reach, Remote};

use crate::action::{AgentEnd, End, Trust};
use crate::known_hosts::{Known, KnownHosts};
use crate::output::note;
use address::Families;
use ssh::SshLogin;

/// An end that can be reached.
pub(crate) struct Reached {
    /// For the mover.
    pub(crate) place: Place,
    /// What was started for it.
    helper: Option<Helper>,
}

/// What keeps an end alive.
enum Helper {
    /// The far end was started over ssh.
    Login(SshLogin),
    /// It is in this process.
    Agent(LocalAgent),
}

impl Reached {
    /// Ends what was started for it.
    pub(crate) async fn end(self) {
        match self.helper {
            Some(Helper::Login(login)) => login.end().await,
            Some(Helper::Agent(agent)) => agent.end().await,
            None => {}
        }
    }

    /// Makes this end of a copy, which is of this host as the other one is, one that bytes can be moved to.
    ///
    /// # Errors
    /// When no agent can be started within this process.
    pub(crate) fn served_here(self, limits: &Limits) -> Result<Reached> {
        let Place::Local(paths) = self.place else { return Ok(self) };
        let start = std::env::current_dir().context("cannot tell what the current directory is")?;
        let options = OneshotOptions { start, io: limits.io, ..OneshotOptions::default() };
        let agent = LocalAgent::start(&options, ssh::new_key()?)?;
        let paths = paths.into_iter().map(|path| path.into_os_string().into_vec()).collect();
        Ok(Reached { place: Place::Agent(agent.remote(), paths), helper: Some(Helper::Agent(agent)) })
    }
}

/// Finds addresses, starts what has to be started. `quiet` leaves out what is not an error.
///
/// # Errors
/// When a name has no address, or the far end could not be started.
pub(crate) async fn reach(end: End, families: Families, quiet: bool) -> Result<Reached> {
    let alone = |place| Reached { place, helper: None };
    Ok(match end {
        End::Local(paths) => alone(Place::Local(paths)),
        End::Pipe => alone(Place::Pipe),
        End::Agent(agent, paths) => alone(Place::Agent(remote(agent, families, quiet).await?, paths)),
        End::Ssh(end, paths) => {
            let login = ssh::start(&end, families).await?;
            Reached { place: Place::Agent(login.remote.clone(), paths), helper: Some(Helper::Login(login)) }
        }
    })
}

async fn remote(end: AgentEnd, families: Families, quiet: bool) -> Result<Remote> {
    let addresses = address::of_agent(&end.agent, families).await?;
    let name = end.agent.hosts.first().map(ToString::to_string).unwrap_or_default();
    let expected = match &end.trust {
        Trust::Pinned(pin) => Some(*pin),
        Trust::KnownHosts(known) => known.pinned(&name),
    };
    let (reach, label) = (Reach::Connect(addresses), end.agent.to_string());
    let judge = judge(end.trust, &label, name, quiet);
    Ok(Remote { reach, expected, judge, token: end.token, label, gone: None })
}

/// Whether what answers is the one meant. `name` is what it is called in the file of pinned fingerprints.
pub(crate) fn judge(trust: Trust, shown: &str, name: String, quiet: bool) -> Judge {
    match trust {
        Trust::Pinned(pin) => only(pin, format!("{shown} was to have")),
        Trust::KnownHosts(known) => known_host(known, name, quiet),
    }
}

/// Trusts one fingerprint; `who_was_to_have` it is for the text of a refusal.
fn only(pin: Fingerprint, who_was_to_have: String) -> Judge {
    Arc::new(move |found: &Fingerprint| match *found == pin {
        true => Ok(()),
        false => Err(format!(
            "{who_was_to_have} the fingerprint {pin}, but what answers has {found}: somebody may be in between, or it was given a new identity"
        )),
    })
}

/// Trusts what is pinned, and pins what is new.
fn known_host(known: KnownHosts, name: String, quiet: bool) -> Judge {
    Arc::new(move |found: &Fingerprint| match known.check(&name, found) {
        Ok(Known::Pinned) if !quiet => {
            note(&format!(
                "first contact with {name}: its fingerprint {found} is pinned in {}",
                known.path().display()
            ));
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(refused) => Err(crate::exit::one_line(&refused.into())),
    })
}
