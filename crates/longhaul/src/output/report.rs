//! The report file: one JSON object with the summary and every file that failed.
//!
//! Failures are written as they come, so a million of them cost no memory. The file is written beside its
//! place and put there at the end: a report is whole or not there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mover::event::{Event, FileEvent};

use super::json::SummaryRecord;
use super::{End, Exporter};

/// The exporter.
pub(crate) struct Report {
    path: PathBuf,
    beside: PathBuf,
    file: BufWriter<File>,
    failures: u64,
}

impl Report {
    /// Begins a report for `path`.
    ///
    /// # Errors
    /// When it cannot be written there.
    pub(crate) fn create(path: &Path) -> Result<Report> {
        let beside = beside(path);
        let mut file = BufWriter::new(File::create(&beside).with_context(|| cannot_write(path))?);
        file.write_all(b"{\"failed\":[").with_context(|| cannot_write(path))?;
        Ok(Report { path: path.to_owned(), beside, file, failures: 0 })
    }

    fn failed(&mut self, event: &FileEvent) -> io::Result<()> {
        self.file.write_all(if self.failures == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut self.file, event)?;
        self.failures += 1;
        Ok(())
    }

    fn finish(&mut self, end: &End<'_>) -> io::Result<()> {
        self.file.write_all(b"],\n\"summary\":")?;
        serde_json::to_writer(&mut self.file, &SummaryRecord::new(end))?;
        self.file.write_all(b"}\n")?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.beside, &self.path)
    }
}

/// Outcomes that are not as they were asked for.
fn is_failure(event: &FileEvent) -> bool {
    ["failed", "changed", "corrupt"].contains(&event.outcome)
}

impl Exporter for Report {
    fn event(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::File(file) if is_failure(file) => self.failed(file).with_context(|| cannot_write(&self.path)),
            _ => Ok(()),
        }
    }

    fn end(&mut self, end: &End<'_>) -> Result<()> {
        self.finish(end).with_context(|| cannot_write(&self.path))
    }
}

/// What did not become a report is taken away.
impl Drop for Report {
    fn drop(&mut self) {
        // After a rename it is no longer there.
        let _ = fs::remove_file(&self.beside);
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the report {}", path.display())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use mover::event::Summary;

    use super::*;

    fn event(path: &str, outcome: &'static str) -> Event {
        Event::File(FileEvent {
            path: path.into(),
            path_bytes: None,
            outcome,
            size: 1,
            why: Some("no".into()),
            digest: None,
        })
    }

    #[test]
    fn holds_the_summary_and_every_failure() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        let mut report = Report::create(&path).unwrap();
        for (name, outcome) in [("a", "failed"), ("b", "placed"), ("c", "corrupt")] {
            report.event(&event(name, outcome)).unwrap();
        }
        assert!(!path.exists(), "not before its end");
        let summary = Summary { files: 3, exit_code: 6, ..Summary::default() };
        report.end(&End { summary: &summary, error: None }).unwrap();
        drop(report);
        let value: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let names: Vec<_> =
            value["failed"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!((&value["summary"]["files"], &value["summary"]["exit_code"]), (&3.into(), &6.into()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_does_not_end_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        drop(Report::create(&dir.path().join("report.json")).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(Report::create(&dir.path().join("none/report.json")).is_err());
    }
}
