//! Commands that ask a controller over HTTPS.

pub(super) mod client;
mod event;
mod fleet;
mod known;
mod show;
mod token;
mod transfer;

use anyhow::Result;

use self::client::Controller;
pub(crate) use self::client::Lost;
pub(crate) use self::known::{Known, known};
pub(crate) use self::token::ApiTokens;
use crate::args::controller::fleet::{AgentWhat, BookingWhat, ClassWhat, EndpointWhat, LimitWhat, TopologyWhat};
use crate::args::controller::transfer::TransferWhat;
use crate::args::controller::{ControllerCommand, ReachArgs};
use crate::environment::Environment;

/// What is asked, and whom.
pub(crate) struct Asking {
    command: ControllerCommand,
    controller: Controller,
}

impl Asking {
    /// Checks what was written.
    ///
    /// # Errors
    /// When no controller is named, or what lets us in is missing.
    pub(super) fn of(command: ControllerCommand, environment: &Environment) -> Result<Asking> {
        let controller = Controller::of(reach(&command), environment)?;
        Ok(Asking { command, controller })
    }

    /// Asks.
    ///
    /// # Errors
    /// When the controller cannot be reached, or says no.
    pub(super) fn run(self) -> Result<u8> {
        super::log_to_stderr("off");
        super::block_on(self.ask())
    }

    async fn ask(self) -> Result<u8> {
        let controller = self.controller;
        match self.command {
            ControllerCommand::Transfer(args) => transfer::run(args.what, &controller).await,
            ControllerCommand::Event(args) => event::follow(&args, &controller).await,
            other => fleet::run(other, &controller).await,
        }
    }
}

fn reach(command: &ControllerCommand) -> &ReachArgs {
    match command {
        ControllerCommand::Transfer(args) => match &args.what {
            TransferWhat::Submit(args) => &args.reach,
            TransferWhat::Ls(args) => &args.reach,
            TransferWhat::Show(args) => &args.reach,
            TransferWhat::Wait(args) => &args.reach,
            TransferWhat::Pause(args) | TransferWhat::Resume(args) | TransferWhat::Cancel(args) => &args.reach,
            TransferWhat::Set(args) => &args.reach,
            TransferWhat::Files(args) => &args.reach,
        },
        ControllerCommand::Class(args) => match &args.what {
            ClassWhat::Ls(args) => &args.reach,
            ClassWhat::Set(args) => &args.reach,
        },
        ControllerCommand::Topology(args) => match &args.what {
            TopologyWhat::Show(args) | TopologyWhat::Links(args) | TopologyWhat::Paths(args) => &args.reach,
            TopologyWhat::Set(args) => &args.reach,
        },
        ControllerCommand::Agent(args) => match &args.what {
            AgentWhat::Ls(args) => &args.reach,
            AgentWhat::Token(args) => &args.reach,
            AgentWhat::Rm(args) => &args.reach,
            AgentWhat::Drain(args) | AgentWhat::Pause(args) | AgentWhat::Resume(args) => &args.reach,
            AgentWhat::Status { .. } | AgentWhat::Forget { .. } => unreachable!("they ask this host"),
        },
        ControllerCommand::Booking(args) => match &args.what {
            BookingWhat::Show(args) => &args.reach,
            BookingWhat::Set(args) => &args.reach,
        },
        ControllerCommand::Endpoint(args) => match &args.what {
            EndpointWhat::Ls(args) => &args.reach,
            EndpointWhat::Set(args) => &args.reach,
            EndpointWhat::Rm(args) => &args.reach,
        },
        ControllerCommand::Limit(args) => match &args.what {
            LimitWhat::Ls(args) => &args.reach,
            LimitWhat::Set(args) => &args.reach,
            LimitWhat::Lift(args) => &args.reach,
        },
        ControllerCommand::Event(args) => &args.reach,
        ControllerCommand::Explain(args) => &args.reach,
        ControllerCommand::History(args) => &args.reach,
    }
}

#[cfg(test)]
mod tests;
