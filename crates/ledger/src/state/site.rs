//! The fold of what is around: network, shares, bookings, endpoints, API tokens, limits, links, generations.

use crate::cause::doubled;
use crate::limits::{
    ENDPOINTS_MAX, FILE_TEXT_MAX, GENERATION_BLOCK, HOLD_MAX_MS, HOLD_MS, LIMITS_MAX, LINKS_MAX,
    RESTORED_GENERATIONS_PER_MS, RESTORED_SESSIONS, TOKENS_MAX,
};
use crate::reason::cut;
use crate::{ApiToken, Event, LinkTrouble, Moment, SessionId, State};

use super::{Fit, need};

impl State {
    pub(super) fn take_site(&mut self, at: Moment, event: &Event) -> Fit {
        match event {
            Event::NetworkSet { network, .. } => {
                need(network.text.len() <= FILE_TEXT_MAX, || "the text is too long".into())?;
                self.network = Some(network.clone());
            }
            Event::SharesSet { shares, .. } => {
                need(shares.text.len() <= FILE_TEXT_MAX, || "the text is too long".into())?;
                self.shares = Some(shares.clone());
            }
            Event::BookingsSet { bookings, .. } => {
                need(bookings.text.len() <= FILE_TEXT_MAX, || "the text is too long".into())?;
                self.bookings = Some(bookings.clone());
            }
            Event::EndpointSet { name, endpoint } => {
                let new = !self.endpoints.contains_key(name);
                need(!new || self.endpoints.len() < ENDPOINTS_MAX, || format!("there are {ENDPOINTS_MAX} endpoints"))?;
                self.endpoints.insert(name.clone(), endpoint.clone());
            }
            Event::EndpointRemoved { name } => {
                self.endpoints.remove(name).ok_or_else(|| format!("there is no endpoint `{name}`"))?;
            }
            Event::TokenMade { name, digest, role, until, by } => {
                let known = self.tokens.iter().any(|(other, token)| other == name || token.digest == *digest);
                need(!known, || format!("there is a token `{name}`"))?;
                need(self.tokens.len() < TOKENS_MAX, || format!("there are {TOKENS_MAX} tokens"))?;
                let (digest, role, until, by) = (*digest, role.clone(), *until, by.clone());
                self.tokens.insert(name.clone(), ApiToken { digest, role, until, by, made: at });
            }
            Event::TokenGone { name } => {
                self.tokens.remove(name).ok_or_else(|| format!("there is no token `{name}`"))?;
            }
            Event::LimitSet { resource, limit } => {
                let new = !self.limits.contains_key(resource);
                need(!new || self.limits.len() < LIMITS_MAX, || format!("there are {LIMITS_MAX} limits"))?;
                self.limits.insert(resource.clone(), limit.clone());
            }
            Event::LimitLifted { resource } => {
                self.limits.remove(resource).ok_or_else(|| format!("there is no limit on {resource}"))?;
            }
            Event::LinkDown { link, evidence } => self.link_down(at, link, evidence)?,
            Event::LinkHeld { link, hold_ms } => {
                let trouble = self.links.get_mut(link).filter(|trouble| !trouble.usable);
                let trouble = trouble.ok_or_else(|| format!("link `{link}` is not down"))?;
                need((1..=HOLD_MAX_MS).contains(hold_ms), || format!("{hold_ms} ms is no time to hold down"))?;
                trouble.hold_ms = *hold_ms;
            }
            Event::LinkUp { link } | Event::LinkUsable { link } | Event::LinkForgotten { link } => {
                self.link_better(at, link, event)?;
            }
            Event::GenerationsReserved { below } => {
                need(*below > self.generations_below, || format!("{} were reserved before", self.generations_below))?;
                self.generations_below = *below;
            }
            Event::Restored {} => {
                // Numbers that go by the time are beyond those of each earlier restore of the same backup, too.
                let session = self.next_session.0.saturating_add(RESTORED_SESSIONS).max(at.0);
                self.next_session = SessionId(session);
                let below = self.generations_below.saturating_add(GENERATION_BLOCK);
                self.generations_below = below.max(at.0.saturating_mul(RESTORED_GENERATIONS_PER_MS));
            }
            other => unreachable!("{} is folded elsewhere", other.kind()),
        }
        Ok(())
    }

    fn link_down(&mut self, at: Moment, link: &str, evidence: &str) -> Fit {
        let before = self.links.get(link);
        need(before.is_none_or(|trouble| trouble.up.is_some()), || format!("link `{link}` is down already"))?;
        need(before.is_some() || self.links.len() < LINKS_MAX, || format!("{LINKS_MAX} links had trouble"))?;
        let flaps = before.map_or(0, |trouble| trouble.flaps);
        let trouble = LinkTrouble {
            down: at,
            evidence: cut(evidence),
            up: None,
            usable: false,
            hold_ms: doubled(HOLD_MS, flaps, HOLD_MAX_MS),
            flaps: flaps.saturating_add(1),
        };
        self.links.insert(link.to_owned(), trouble);
        Ok(())
    }

    fn link_better(&mut self, at: Moment, link: &str, event: &Event) -> Fit {
        let trouble = self.links.get_mut(link).ok_or_else(|| format!("link `{link}` had no trouble"))?;
        match event {
            Event::LinkUp { .. } => {
                need(trouble.up.is_none(), || format!("link `{link}` is up already"))?;
                trouble.up = Some(at);
            }
            Event::LinkUsable { .. } => {
                need(trouble.up.is_some() && !trouble.usable, || format!("link `{link}` is not held down"))?;
                trouble.usable = true;
            }
            _ => {
                need(trouble.usable, || format!("link `{link}` is not in use again"))?;
                self.links.remove(link);
            }
        }
        Ok(())
    }
}
