//! JSON Lines on standard output; the last record is the summary.

use anyhow::Result;
use mover::event::Event;
use serde::Serialize;

use super::{End, Exporter, print};

/// The exporter.
pub(crate) struct Json {
    /// Nothing but the last record.
    pub(crate) summary_only: bool,
}

/// The last record.
#[derive(Serialize)]
pub(crate) struct SummaryRecord<'a> {
    event: &'static str,
    #[serde(flatten)]
    summary: &'a mover::event::Summary,
    /// Why it could not begin or ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<'a> SummaryRecord<'a> {
    pub(crate) fn new(end: &End<'a>) -> SummaryRecord<'a> {
        SummaryRecord { event: "summary", summary: end.summary, error: end.error }
    }
}

impl Exporter for Json {
    fn event(&mut self, event: &Event) -> Result<()> {
        if self.summary_only { Ok(()) } else { line(event) }
    }

    fn end(&mut self, end: &End<'_>) -> Result<()> {
        line(&SummaryRecord::new(end))
    }
}

fn line(record: &impl Serialize) -> Result<()> {
    print(serde_json::to_string(record)? + "\n")
}

#[test]
fn the_last_record_says_why_it_failed() {
    let summary = mover::event::Summary { exit_code: 1, ..Default::default() };
    let record = SummaryRecord::new(&End { summary: &summary, error: Some("no route") });
    let value = serde_json::to_value(&record).unwrap();
    assert_eq!(
        (&value["event"], &value["error"], &value["exit_code"]),
        (&"summary".into(), &"no route".into(), &1.into())
    );
    let done = serde_json::to_value(SummaryRecord::new(&End { summary: &summary, error: None })).unwrap();
    assert!(done.get("error").is_none());
}
