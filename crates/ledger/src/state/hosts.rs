//! The fold of agents: how they come, go, and are decided about.

use crate::limits::{AGENTS_MAX, ENROLMENTS_MAX};
use crate::reason::cut;
use crate::{Agent, Decision, Event, Moment, State};

use super::{Fit, need};

impl State {
    pub(super) fn take_host(&mut self, at: Moment, event: &Event) -> Fit {
        match event {
            Event::EnrolmentMade { token, enrolment } => {
                need(!self.enrolments.contains_key(token), || "there is this token already".into())?;
                need(self.enrolments.len() < ENROLMENTS_MAX, || format!("{ENROLMENTS_MAX} tokens wait to be used"))?;
                self.enrolments.insert(*token, enrolment.clone());
            }
            Event::EnrolmentExpired { token } => {
                self.enrolments.remove(token).ok_or("there is no such token")?;
            }
            Event::Enrolled { token, host, fingerprint } => {
                let made = self.enrolments.get(token).ok_or("there is no such token, or it was used")?;
                need(made.host == *host, || format!("the token is for host `{}`", made.host))?;
                let new = !self.agents.contains_key(host);
                need(!new || self.agents.len() < AGENTS_MAX, || format!("there are {AGENTS_MAX} agents"))?;
                let other = self.agents.iter().find(|(name, agent)| agent.fingerprint == *fingerprint && *name != host);
                need(other.is_none(), || "another host has this key".into())?;
                self.enrolments.remove(token);
                // A host that enrols again has a new key; what its operators decided stays.
                let (own, ours) = self.agents.remove(host).map(|agent| (agent.own, agent.ours)).unwrap_or_default();
                let agent = Agent { fingerprint: *fingerprint, enrolled: at, away: Some(at), own, ours };
                self.agents.insert(host.clone(), agent);
            }
            Event::AgentBack { host } => {
                let agent = self.agent(host)?;
                need(agent.away.is_some(), || format!("the agent of `{host}` is connected already"))?;
                agent.away = None;
            }
            Event::AgentAway { host } => {
                let agent = self.agent(host)?;
                need(agent.away.is_none(), || format!("the agent of `{host}` is away already"))?;
                agent.away = Some(at);
            }
            Event::AgentDecided { host, own, decision } => {
                let decision = Decision { mode: decision.mode, reason: cut(&decision.reason) };
                let agent = self.agent(host)?;
                *(if *own { &mut agent.own } else { &mut agent.ours }) = decision;
            }
            Event::AgentForgotten { host } => {
                self.agent(host)?;
                let runs = self.sessions.iter().find(|(_, session)| session.is_at(host));
                need(runs.is_none(), || format!("sessions run at `{host}`"))?;
                self.agents.remove(host);
                self.asides.remove(host);
            }
            other => unreachable!("{} is folded elsewhere", other.kind()),
        }
        Ok(())
    }

    fn agent(&mut self, host: &str) -> Result<&mut Agent, String> {
        self.agents.get_mut(host).ok_or_else(|| format!("no agent of `{host}` is enrolled"))
    }
}
