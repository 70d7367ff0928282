//! How long things took.

use std::time::Duration;

/// All of them: a few million fit.
#[derive(Clone, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(crate) fn extend(&mut self, others: Times) {
        self.0.extend(others.0);
    }

    /// Count and quantiles, s. A quantile is a time that was measured: the least that so many are not above.
    pub(crate) fn told(mut self) -> serde_json::Value {
        self.0.sort_unstable();
        let at = |part: f64| {
            let place = (self.0.len() as f64 * part).ceil() as usize;
            self.0.get(place.saturating_sub(1)).map(Duration::as_secs_f64)
        };
        serde_json::json!({
            "count": self.0.len(), "p50_s": at(0.5), "p90_s": at(0.9), "p99_s": at(0.99), "p999_s": at(0.999), "most_s": at(1.0),
        })
    }
}
