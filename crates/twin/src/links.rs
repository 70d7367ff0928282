//! The links of a twin that runs: how they are, and changes of them, whatever carries their packets.

use std::collections::BTreeSet;

use anyhow::{Context, Error, Result, anyhow};
use model::network::{Direction, LinkIndex, Network};
use model::scenario::Way;
use sim::link::check_queue;

use crate::control::{self, Ask, LinkState};
use crate::cut;
use crate::netem;
use crate::place::{Driver, Place, Record};
use crate::plan::Plan;

/// The links of a twin that is up.
#[derive(Debug)]
pub struct Links<'a> {
    place: &'a Place,
    network: Network,
    record: Record,
    plan: Plan,
}

impl<'a> Links<'a> {
    /// Those of the twin at `place`.
    ///
    /// # Errors
    /// When there is no such twin, or it was left half made.
    pub fn of(place: &'a Place) -> Result<Links<'a>> {
        let (mut network, record) = place.read()?;
        let plan = Plan::new(&network, place.name())?;
        // What netem does that is not in the description: nobody else knows it.
        for (n, [forward, backward]) in place.changes()? {
            let link = network.links.get_mut(n).with_context(|| format!("the twin has no link {n}"))?;
            (link.forward, link.backward) = (forward, backward);
        }
        Ok(Links { place, network, record, plan })
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

    /// Changes a link, one way or both: `changes` are keys and texts of [`Direction::changed`].
    ///
    /// # Errors
    /// When the changes are not good, the link is plain, or what carries its packets refuses.
    pub fn change<T: AsRef<str>>(&mut self, link: LinkIndex, way: Option<Way>, changes: &[(T, T)]) -> Result<()> {
        if self.is_plain(link) {
            return Err(anyhow!("{}", self.why_plain(link)));
        }
        if self.has_emulator(link) {
            let changes = changes.iter().map(|(key, text)| (key.as_ref().to_owned(), text.as_ref().to_owned()));
            return control::ask(self.place, &Ask::Change { link, way, changes: changes.collect() }).map(drop);
        }
        let (plan, described) = (&self.plan, &mut self.network.links[link]);
        self.place.update_changes(|made| {
            // Others may have changed it since this was read.
            let now = made.remove(&link).unwrap_or_else(|| [described.forward.clone(), described.backward.clone()]);
            let directions = changed(&now, way, changes, described.mtu)?;
            netem::change(plan, link, &directions, described.mtu)?;
            [described.forward, described.backward] = directions.clone();
            made.insert(link, directions);
            Ok(())
        })
    }

    /// Why [`Links::change`] would refuse one of several links as they are now, so that none is changed then.
    ///
    /// # Errors
    /// When the emulator has ended.
    pub fn why_not<T: AsRef<str>>(
        &self,
        links: &[LinkIndex],
        way: Option<Way>,
        changes: &[(T, T)],
    ) -> Result<Option<String>> {
        let states = self.states()?;
        Ok(links.iter().find_map(|&n| {
            let (link, state) = (&self.network.links[n], states.get(n).and_then(Option::as_ref));
            let described = [link.forward.clone(), link.backward.clone()];
            let now = state.map_or(&described, |state| &state.directions);
            let holds = |directions: [Direction; 2]| match state {
                Some(_) => directions.iter().try_for_each(check_queue).map_err(Error::msg),
                // netem holds what it is told to.
                None => Ok(()),
            };
            let refused = changed(now, way, changes, link.mtu).and_then(holds).err()?;
            Some(format!("link `{}`: {refused}", link.name))
        }))
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

/// Both directions of a link of this MTU as they are once one or both of them are changed.
pub(crate) fn changed<T: AsRef<str>>(
    now: &[Direction; 2],
    way: Option<Way>,
    changes: &[(T, T)],
    mtu: u32,
) -> Result<[Direction; 2]> {
    let mut directions = now.clone();
    for way in Way::of(way) {
        let direction = &mut directions[way.index()];
        *direction = direction.changed(changes, mtu).map_err(Error::msg)?;
    }
    Ok(directions)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use units::Rate;

    use super::*;

    #[test]
    fn changes_of_one_way_add_up() {
        let now = [(); 2].map(|()| Direction { rate: Some(Rate::gbps(1)), ..Direction::default() });
        let once = changed(&now, Some(Way::Forward), &[("delay", "5 ms")], 1500).unwrap();
        let [forward, backward] = changed(&once, Some(Way::Backward), &[("rate", "2 Gb/s")], 1500).unwrap();
        assert_eq!((forward.delay, forward.rate), (Duration::from_millis(5), Some(Rate::gbps(1))));
        assert_eq!((backward.delay, backward.rate), (Duration::ZERO, Some(Rate::gbps(2))));
    }

    #[test]
    fn nothing_is_changed_where_one_way_cannot_be() {
        let now = [Direction { rate: Some(Rate::gbps(1)), ..Direction::default() }, Direction::default()];
        assert!(changed(&now, Some(Way::Forward), &[("queue", "10 MB")], 1500).is_ok());
        let why = changed(&now, None, &[("queue", "10 MB")], 1500).unwrap_err().to_string();
        assert!(why.starts_with("`queue` without `rate`"), "{why}");
    }
}
