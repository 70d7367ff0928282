//! Numbers of the face itself, for metrics.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Media type of the metrics.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const END: &str = "# EOF\n";

/// Since the start.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Connections that were closed at a bound.
    pub(super) refused: AtomicU64,
    /// Handshakes that failed or took too long.
    pub(super) unshaken: AtomicU64,
    /// HTTP connections open.
    pub(super) connections: AtomicU64,
    /// Agents' connections open.
    pub(super) agents: AtomicU64,
    /// Clients that listen to events.
    pub(super) listeners: AtomicU64,
    /// Clients that were too slow for the events.
    pub(super) let_go: AtomicU64,
    /// Answers by the hundreds of their status, from 1xx on.
    answers: [AtomicU64; 5],
}

impl Numbers {
    /// One more answer.
    pub(super) fn answered(&self, status: u16) {
        if let Some(count) = usize::from(status / 100).checked_sub(1).and_then(|n| self.answers.get(n)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// These behind those of the app, as one OpenMetrics text.
    pub(super) fn behind(&self, app: &str) -> String {
        let mut text = app.trim_end_matches(END).to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let mut counter = |name: &str, help: &str, value: &AtomicU64| {
            let value = value.load(Relaxed);
            text += &format!("# HELP longhaul_http_{name} {help}.\n# TYPE longhaul_http_{name} counter\n");
            text += &format!("longhaul_http_{name}_total {value}\n");
        };
        counter("refused", "Connections closed at a bound", &self.refused);
        counter("unshaken", "TLS handshakes that failed or took too long", &self.unshaken);
        counter("listeners_let_go", "Clients too slow for the events", &self.let_go);
        let mut gauge = |name: &str, help: &str, value: &AtomicU64| {
            let value = value.load(Relaxed);
            text += &format!("# HELP longhaul_http_{name} {help}.\n# TYPE longhaul_http_{name} gauge\n");
            text += &format!("longhaul_http_{name} {value}\n");
        };
        gauge("connections", "HTTP connections open", &self.connections);
        gauge("agents", "Connections of agents open", &self.agents);
        gauge("listeners", "Clients that listen to events", &self.listeners);
        text += "# HELP longhaul_http_answers Answers by status.\n# TYPE longhaul_http_answers counter\n";
        for (hundreds, count) in (1..).zip(&self.answers) {
            let _ = writeln!(text, "longhaul_http_answers_total{{status=\"{hundreds}xx\"}} {}", count.load(Relaxed));
        }
        text + END
    }
}

/// Counts something as long as it is kept.
pub(super) struct Counted<F: Fn(&Numbers) -> &AtomicU64>(pub(super) std::sync::Arc<Numbers>, pub(super) F);

impl<F: Fn(&Numbers) -> &AtomicU64> Counted<F> {
    pub(super) fn new(numbers: &std::sync::Arc<Numbers>, which: F) -> Counted<F> {
        which(numbers).fetch_add(1, Relaxed);
        Counted(numbers.clone(), which)
    }
}

impl<F: Fn(&Numbers) -> &AtomicU64> Drop for Counted<F> {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_with_one_end() {
        let numbers = Numbers::default();
        numbers.answered(204);
        numbers.answered(999);
        for app in ["", "# TYPE a gauge\na 1\n", "# TYPE a gauge\na 1\n# EOF\n", "# TYPE a gauge\na 1"] {
            let text = numbers.behind(app);
            assert_eq!(text.matches("# EOF").count(), 1, "{text}");
            assert!(text.ends_with(END) && !text.contains("\n\n"), "{text}");
            assert!(text.contains("longhaul_http_answers_total{status=\"2xx\"} 1\n"), "{text}");
        }
    }
}
