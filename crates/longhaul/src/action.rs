//! What the program does: one [`Action`], made in one place from what was written.

mod controller;
mod copy;
mod document;
mod door;
mod driver;
mod end;
mod host_agent;
mod network;
mod plan;
mod run_controller;
mod serve;
mod session;
mod settings;
mod show;
mod standing;
mod test;
mod token;
mod twin;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap_complete::Shell;

use crate::args::controller::ControllerCommand;
use crate::args::plan::{PlanArgs, PlanWhat};
use crate::args::session::SessionArgs;
use crate::args::test::TestWhat;
use crate::args::token::TokenWhat;
use crate::args::twin::{TwinArgs, TwinWhat};
use crate::args::{Args, Command};
use crate::environment::Environment;
pub(crate) use controller::Lost;
pub(crate) use end::{AgentEnd, End, SshEnd, Trust};

/// Everything the program can do, checked.
pub(crate) enum Action {
    /// Copies a dataset.
    Copy(Box<copy::Copy>),
    /// Tests throughput.
    Test(Box<test::Throughput>),
    /// Runs the agent.
    Serve(serve::Serve),
    /// Shares a port among agents.
    Door(door::Door),
    /// Runs the controller, or works on its store.
    RunController(run_controller::RunController),
    /// Makes, lists or revokes tokens.
    Token(TokenWhat),
    /// Asks the agent of this host.
    HostAgent(host_agent::HostQuestion),
    /// Lists, changes or stops sessions.
    Session(session::Session),
    /// Makes, lists, changes or removes emulated networks.
    Twin(TwinWhat),
    /// Shapes traffic, and routes it by policy.
    Driver(Box<driver::Driver>),
    /// Computes paths, slots and requirements from files.
    Plan(PlanWhat),
    /// Asks a controller.
    Controller(Box<controller::Asking>),
    /// Prints completions.
    Completions(Shell),
    /// Writes manual pages.
    Man(PathBuf),
}

impl Action {
    /// Checks what was written.
    ///
    /// # Errors
    /// When options contradict each other, or something they name cannot be used; nothing was begun then.
    pub(crate) fn of(args: Args) -> Result<Action> {
        let environment = Environment::of_process()?;
        Ok(match args.command {
            Command::Copy(args) => Action::Copy(Box::new(copy::Copy::of(*args, &environment)?)),
            Command::Test(args) => match args.what {
                TestWhat::Throughput(args) => Action::Test(Box::new(test::Throughput::of(*args, &environment)?)),
            },
            Command::Serve(args) => Action::Serve(serve::Serve::of(args, &environment)?),
            Command::Door(args) => Action::Door(door::Door::of(args)?),
            Command::RunController(args) => {
                Action::RunController(run_controller::RunController::of(*args, &environment)?)
            }
            Command::Token(args) => Action::Token(args.what),
            Command::Session(SessionArgs { what }) => Action::Session(session::Session::of(what, &environment)),
            Command::Twin(TwinArgs { what }) => Action::Twin(what),
            Command::Driver(args) => Action::Driver(Box::new(driver::Driver::of(args.what, &environment)?)),
            Command::Plan(PlanArgs { what }) => Action::Plan(what),
            Command::Controller(command) => {
                if let ControllerCommand::Agent(args) = &command
                    && let Some(question) = host_agent::HostQuestion::of(&args.what)
                {
                    return Ok(Action::HostAgent(question));
                }
                Action::Controller(Box::new(controller::Asking::of(command, &environment)?))
            }
            Command::Completions { shell } => Action::Completions(shell),
            Command::Man { dir } => Action::Man(dir),
        })
    }

    /// Does it. The exit code is in the result, or in the error.
    ///
    /// # Errors
    /// When it could not be done.
    pub(crate) fn run(self) -> Result<u8> {
        // The usual limit is 1024, for programs that use `select`: a copy of many files, an agent of many sessions or a network of
        // many links needs more, and who starts it may not know. Refused it goes on with what there is.
        let _ = sys::cpu::raise_nofile();
        match self {
            Action::Copy(copy) => copy.run(),
            Action::Test(test) => test.run(),
            Action::Serve(serve) => serve.run(),
            Action::Door(door) => door.run(),
            Action::RunController(controller) => controller.run(),
            Action::Token(what) => token::run(what),
            Action::HostAgent(what) => host_agent::run(what),
            Action::Session(session) => session.run(),
            Action::Twin(what) => twin::run(what),
            Action::Driver(driver) => driver.run(),
            Action::Plan(what) => plan::run(what),
            Action::Controller(asking) => asking.run(),
            Action::Completions(shell) => document::completions(shell),
            Action::Man(dir) => document::man(&dir),
        }
    }
}

/// Runs `work` on a runtime of this thread; what it left running does not hold up the end.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Lets the libraries' log be seen where `LONGHAUL_LOG` asks for it; what they have to tell users comes as events.
fn log_to_stderr(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("LONGHAUL_LOG").unwrap_or_else(|_| default.into());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber could only be this function's own, from an earlier call.
    let _ = builder.try_init();
}
