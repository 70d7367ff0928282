//! The command `ip`.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs lines of `ip`, in a namespace if one is given.
pub(crate) fn ip(namespace: Option<&str>, lines: &str) -> Result<()> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run `ip`: install iproute2")?;
    child.stdin.take().expect("it was piped").write_all(lines.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // The place of the line in the batch is of use to nobody who does not see the batch.
        let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("Command failed")).collect();
        let number = String::from_utf8_lossy(&output.stderr)
            .rsplit_once("-:")
            .and_then(|(_, number)| number.trim().parse::<usize>().ok());
        let line = number.and_then(|n| lines.lines().nth(n - 1)).unwrap_or("a batch");
        bail!("`ip {line}`{}: {}", namespace.map(|n| format!(" in {n}")).unwrap_or_default(), said.join("; "));
    }
    Ok(())
}
