//! `longhaul test throughput`, checked and run.

use std::time::Duration;

use anyhow::Result;
use mover::event::Summary;
use mover::request::{Limits, Place, TestRequest};
use proto::control::Settings;

use super::end::{Access, End};
use super::settings::{limits, settings};
use super::show::Show;
use super::{block_on, log_to_stderr};
use crate::args::test::ThroughputArgs;
use crate::args::value::Streams;
use crate::drive::{self, WhenClosed, drive};
use crate::environment::Environment;
use crate::exit::usage;
use crate::output::Outputs;
use crate::output::summary::Kind;
use crate::reach::address::Families;
use crate::reach::reach;
use crate::session::wire::Status;

/// Shorter intervals say more about the clock than about the path.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longer tests are copies.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

/// A test that can be begun.
pub(crate) struct Throughput {
    host: End,
    settings: Settings,
    duration: Duration,
    interval: Duration,
    reverse: bool,
    bidirectional: bool,
    sweep: bool,
    limits: Limits,
    show: Show,
}

impl Throughput {
    /// Checks what was written.
    ///
    /// # Errors
    /// When options contradict each other, or something they name cannot be used.
    pub(crate) fn of(args: ThroughputArgs, environment: &Environment) -> Result<Throughput> {
        let (duration, interval) = (args.duration.get(), args.interval.get());
        if duration.is_zero() || duration > DURATION_MAX {
            return Err(usage(format!("--duration {} is not between 0 and 24 h", args.duration)));
        }
        if interval < INTERVAL_MIN {
            return Err(usage(format!("--interval {} is too short: 100ms is the least", args.interval)));
        }
        if args.sweep && args.transport.streams != Streams::Auto {
            return Err(usage("--sweep tries numbers of streams, --streams names one: leave one of them"));
        }
        let what = format!("throughput {}", args.host);
        let access = Access::new(&args.access, environment);
        let host = access.end(vec![args.host.clone()], None)?;
        access.check_use(&[&host])?;
        let status =
            Status { kind: "test".into(), what, set_point_bps: args.transport.rate.bps(), ..Status::default() };
        Ok(Throughput {
            host,
            settings: settings(&args.transport, false)?,
            duration,
            interval,
            reverse: args.reverse,
            bidirectional: args.bidirectional,
            sweep: args.sweep,
            limits: limits(&args.transport, environment)?,
            show: Show::new(args.output, Kind::Test, false, status, environment),
        })
    }

    /// Tests.
    ///
    /// # Errors
    /// When it could not begin or ended early.
    pub(crate) fn run(self) -> Result<u8> {
        log_to_stderr("off");
        block_on(async move {
            let (lines, ends) = drive::lines();
            let mut outputs = self.show.outputs(lines.steer.clone())?;
            let result = self.go(lines, ends, &mut outputs).await;
            outputs.end(result)
        })
    }

    async fn go(self, lines: drive::Lines, ends: drive::Ends, outputs: &mut Outputs) -> Result<Summary> {
        let reached = reach(self.host, Families::of(&self.limits.bind), self.show.is_quiet()).await?;
        let Place::Agent(remote, _) = &reached.place else {
            unreachable!("the far end of a test is parsed as an agent or a host");
        };
        let request = TestRequest {
            remote: remote.clone(),
            settings: self.settings,
            duration: self.duration,
            interval: self.interval,
            reverse: self.reverse,
            bidirectional: self.bidirectional,
            sweep: self.sweep,
            limits: self.limits,
        };
        let result = drive(mover::test(request, ends.events, ends.steer), lines, outputs, WhenClosed::Stop).await;
        reached.end().await;
        result
    }
}
