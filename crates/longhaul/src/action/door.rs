//! `longhaul door`: checks what was written and opens it.

use agent::Log;
use agent::door::config::{Config, Overrides};
use anyhow::Result;

use super::block_on;
use super::serve::{log, signals};
use crate::args::door::DoorArgs;
use crate::args::value::LogFormat;
use crate::exit;
use crate::output::print;

/// A door that can be opened.
pub(crate) enum Door {
    /// Its configuration is right; that was all that was asked.
    Checked(Box<Config>),
    /// It runs until it is stopped.
    Run(Box<Config>),
}

impl Door {
    /// Checks what was written.
    ///
    /// # Errors
    /// When the configuration cannot be.
    pub(crate) fn of(args: DoorArgs) -> Result<Door> {
        let overrides = Overrides {
            listen: args.listen,
            instances: args.instance,
            default: args.default,
            metrics: args.metrics,
            ready_file: args.ready_file,
            log: args.log.map(|format| match format {
                LogFormat::Human => Log::Human,
                LogFormat::Json => Log::Json,
            }),
            is_inherited: is_inherited(),
        };
        let config = Box::new(Config::load(args.config.as_deref(), &overrides)?);
        Ok(if args.check { Door::Checked(config) } else { Door::Run(config) })
    }

    /// Opens it.
    ///
    /// # Errors
    /// When it cannot start, or ended other than by a signal.
    pub(crate) fn run(self) -> Result<u8> {
        match self {
            Door::Checked(config) => print(checked(&config))?,
            Door::Run(config) => {
                log(config.log());
                block_on(async { Ok(agent::door::run(*config, signals()?).await?) })?;
            }
        }
        Ok(exit::DONE)
    }
}

/// Whether the service manager hands one socket to this process (sd_listen_fds(3)).
fn is_inherited() -> bool {
    let is = |name: &str, value: String| std::env::var(name).is_ok_and(|text| text == value);
    is("LISTEN_PID", std::process::id().to_string()) && is("LISTEN_FDS", "1".to_owned())
}

fn checked(config: &Config) -> String {
    let mut text = format!("the configuration is right\nlisten     {}\n", config.listen().address);
    if let Some(metrics) = config.metrics() {
        text.push_str(&format!("metrics    {metrics}\n"));
    }
    for one in config.instances() {
        text.push_str(&format!("instance   {} {} at {}\n", one.name, one.fingerprint, one.socket.display()));
    }
    if let Some(default) = config.default_instance() {
        text.push_str(&format!("default    {}\n", default.name));
    }
    text
}
