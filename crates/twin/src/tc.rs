//! `tc` of iproute2, inside a namespace.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs `tc` with `words`; gives what it wrote.
///
/// # Errors
/// When there is no `tc`, or what it says on one line.
pub(crate) fn tc<W: AsRef<str>>(namespace: &str, words: &[W]) -> Result<String> {
    let words = words.iter().map(AsRef::as_ref);
    let output = Command::new("tc").args(["-n", namespace]).args(words).output();
    let output = output.context("cannot run `tc`: install iproute2")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
