//! `longhaul serve`: checks what was written and hands over to the agent.

use std::net::IpAddr;

use agent::{Config, Log, OneshotOptions, Overrides};
use anyhow::{Context, Result};

use super::block_on;
use crate::args::serve::ServeArgs;
use crate::args::value::{LogFormat, Ports};
use crate::environment::Environment;
use crate::exit;
use crate::output::print;

/// What is logged unless `LONGHAUL_LOG` says otherwise.
const LOG_DEFAULT: &str = "info";

/// An agent that can be started.
pub(crate) enum Serve {
    /// Its configuration is right; that was all that was asked.
    Checked(Box<Config>),
    /// It runs until it is stopped.
    Agent(Box<Config>),
    /// The far end of one ssh login.
    Oneshot(OneshotOptions),
}

impl Serve {
    /// Checks what was written.
    ///
    /// # Errors
    /// When the configuration cannot be.
    pub(crate) fn of(args: ServeArgs, environment: &Environment) -> Result<Serve> {
        if args.oneshot {
            return oneshot(args.ports, environment).map(Serve::Oneshot);
        }
        let overrides = Overrides {
            listen: args.listen,
            roots: args.root,
            state_dir: args.state_dir,
            metrics: args.metrics,
            ready_file: args.ready_file,
            door: args.door,
            door_user: args.door_user,
            controller: args.controller,
            enrol_token_file: args
                .enrol_token_file
                .map(std::path::absolute)
                .transpose()
                .context("cannot find the directory of --enrol-token-file")?,
            log: args.log.map(|format| match format {
                LogFormat::Human => Log::Human,
                LogFormat::Json => Log::Json,
            }),
            io: environment.io,
        };
        let config = Config::load(args.config.as_deref(), &overrides, &agent::Environment::of_process())?;
        Ok(if args.check { Serve::Checked(Box::new(config)) } else { Serve::Agent(Box::new(config)) })
    }

    /// Runs it.
    ///
    /// # Errors
    /// When it cannot start, or ended other than by a signal.
    pub(crate) fn run(self) -> Result<u8> {
        match self {
            Serve::Checked(config) => print(checked(&config))?,
            Serve::Agent(config) => {
                log(config.log());
                block_on(async { Ok(agent::run(*config, signals()?).await?) })?;
            }
            Serve::Oneshot(options) => {
                // What is logged appears at the other end, on the user's terminal.
                super::log_to_stderr("warn");
                block_on(async {
                    Ok(agent::oneshot(options, tokio::io::stdin(), tokio::io::stdout(), signals()?).await?)
                })?;
            }
        }
        Ok(exit::DONE)
    }
}

pub(super) fn signals() -> Result<tokio::sync::watch::Receiver<agent::Stop>> {
    agent::signals().context("cannot listen to signals")
}

fn oneshot(ports: Option<Ports>, environment: &Environment) -> Result<OneshotOptions> {
    // A login starts in the home of its user.
    let start = std::env::current_dir().context("cannot find the directory of the login")?;
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    Ok(OneshotOptions {
        ports: ports.map(|ports| ports.low..=ports.high),
        start,
        reached_at: reached_at(&connection),
        io: environment.io,
        ..OneshotOptions::default()
    })
}

/// The server's address in `SSH_CONNECTION`: client, its port, server, its port.
fn reached_at(connection: &str) -> Option<IpAddr> {
    connection.split_ascii_whitespace().nth(2)?.parse().ok()
}

pub(super) fn log(format: Log) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("LONGHAUL_LOG").unwrap_or_else(|_| LOG_DEFAULT.into());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Log::Human => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        Log::Json => builder.json().flatten_event(true).init(),
    }
}

fn checked(config: &Config) -> String {
    let mut text = format!(
        "the configuration is right\nlisten     {}\nstate      {}\n",
        config.listen().address,
        config.state_dir().display()
    );
    if let Some(metrics) = config.metrics() {
        text.push_str(&format!("metrics    {metrics}\n"));
    }
    if let Some(door) = config.door() {
        text.push_str(&format!("door       {} of user {}\n", door.socket.display(), door.uid));
    }
    if let Some(controller) = config.controller() {
        text.push_str(&format!("controller {controller}\n"));
    }
    for grant in config.grants().iter() {
        let may = match (grant.read, grant.write) {
            (true, true) => "read and write",
            (true, false) => "read only",
            _ => "write only",
        };
        let rate = grant.rate_bps.map(|bps| format!(", at most {}", units::Rate::from_bps(bps))).unwrap_or_default();
        text.push_str(&format!("grant      {} for {} ({may}{rate})\n", grant.root.written(), grant.collaboration));
    }
    for root in config.roots().iter() {
        text.push_str(&format!(
            "root       {} ({})\n",
            root.written(),
            if root.write() { "read and write" } else { "read only" }
        ));
    }
    text
}

#[test]
fn the_address_that_ssh_reached() {
    assert_eq!(reached_at("192.0.2.7 51234 192.0.2.1 22"), "192.0.2.1".parse().ok());
    assert_eq!(reached_at("2001:db8::7 51234 2001:db8::1 22"), "2001:db8::1".parse().ok());
    assert_eq!(reached_at(""), None);
}
