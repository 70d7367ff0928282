//! The links of a twin that runs: how they are, and changes of them, whatever carries their packets.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow};
use model::network::{LinkIndex, Network};
use model::scenario::Way;

use crate::control::{self, Ask, LinkState};
use crate::cut;
use crate::netem;
use crate::place::{Changes, Driver, Place, Record};
use crate::plan::Plan;

/// The links of a twin that is up.
#[derive(Debug)]
pub struct Links<'a> {
    place: &'a Place,
    network: Network,
    record: Record,
    plan: Plan,
    /// What netem does that is not in the description: nobody else knows it.
    changes: Changes,
}

impl<'a> Links<'a> {
    /// Those of the twin at `place`.
    ///
    /// # Errors
    /// When there is no such twin, or it was left half made.
    pub fn of(place: &'a Place) -> Result<Links<'a>> {
        let (mut network, record) = place.read()?;
        let plan = Plan::new(&network, place.name())?;
        let changes = place.changes()?;
        for (n, [forward, backward]) in &changes {
            let link = network.links.get_mut(*n).with_context(|| format!("the twin has no link {n}"))?;
            (link.forward, link.backward) = (forward.clone(), backward.clone());
        }
        Ok(Links { place, network, record, plan, changes })
    }

    /// The network as it was brought up; where netem carries it, as it is now.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What it is on this machine.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How the twin was brought up.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Whether nothing is done to packets on a link but a cut: it is a veth pair and nothing else.
    #[must_use]
    pub fn is_plain(&self, link: LinkIndex) -> bool {
        !self.plan.links[link].emulated
    }

    /// Whether the emulator carries a link.
    fn has_emulator(&self, link: LinkIndex) -> bool {
        self.record.driver == Driver::Own && self.plan.links[link].emulated
    }

    /// Each link as its emulator has it; `None` for one without.
    ///
    /// # Errors
    /// When the emulator has ended.
    pub fn states(&self) -> Result<Vec<Option<LinkState>>> {
        match self.record.driver {
            Driver::Own => control::links(self.place),
            Driver::Netem => Ok(vec![None; self.network.links.len()]),
        }
    }

    /// Of the links without an emulator those that are cut.
    ///
    /// # Errors
    /// When the kernel cannot be asked, as when a namespace is gone.
    pub fn cut(&self) -> Result<BTreeSet<LinkIndex>> {
        let veths: Vec<_> = (0..self.network.links.len()).filter(|&link| !self.has_emulator(link)).collect();
        cut::cut_links(&self.plan, &veths)
    }

    /// Cuts a link, or heals it.
    ///
    /// # Errors
    /// When the emulator has ended, or the kernel cannot cut a link without one.
    pub fn set_up(&self, link: LinkIndex, up: bool) -> Result<()> {
        if self.has_emulator(link) {
            return control::ask(self.place, &Ask::Up { link, up }).map(drop);
        }
        cut::set_up(&self.plan, link, up)
    }

    /// Changes a link, one way or both: `changes` are keys and texts of [`model::network::Direction::change`].
    ///
    /// # Errors
    /// When a text is not good, the link is plain, or what carries its packets refuses.
    pub fn change<T: AsRef<str>>(&mut self, link: LinkIndex, way: Option<Way>, changes: &[(T, T)]) -> Result<()> {
        if self.is_plain(link) {
            return Err(anyhow!("{}", self.why_plain(link)));
        }
        let mut directions = if self.has_emulator(link) {
            let state = control::links(self.place)?.into_iter().nth(link).flatten();
            state.context("the emulator does not know the link")?.directions
        } else {
            let link = &self.network.links[link];
            [link.forward.clone(), link.backward.clone()]
        };
        for way in Way::of(way) {
            for (key, text) in changes {
                let change = directions[way.index()].change(key.as_ref(), text.as_ref());
                change.map_err(|why| anyhow!("{}: {why}", key.as_ref()))?;
            }
        }
        if self.has_emulator(link) {
            return control::ask(self.place, &Ask::Set { link, directions: Box::new(directions) }).map(drop);
        }
        netem::change(&self.plan, link, &directions)?;
        self.changes.insert(link, directions.clone());
        let [forward, backward] = directions;
        (self.network.links[link].forward, self.network.links[link].backward) = (forward, backward);
        self.place.write_changes(&self.changes)
    }

    /// Loses the next packets of a link, forward and backward so many.
    ///
    /// # Errors
    /// When no emulator carries the link, or it has ended.
    pub fn drop_next(&self, link: LinkIndex, counts: [u32; 2]) -> Result<()> {
        if self.is_plain(link) {
            return Err(anyhow!("{}", self.why_plain(link)));
        }
        if !self.has_emulator(link) {
            return Err(anyhow!(
                "netem cannot lose a given number of packets: bring the twin up without `--driver netem`"
            ));
        }
        control::ask(self.place, &Ask::Drop { link, counts }).map(drop)
    }

    /// Why nothing but a cut is done to a plain link, and the way out.
    #[must_use]
    pub fn why_plain(&self, link: LinkIndex) -> String {
        let name = &self.network.links[link].name;
        format!("link `{name}` is plain, it can only be cut and healed: give it a rate or a delay in the network")
    }
}
