//! How it stands with work that is done round by round until it is stopped.

use std::time::Instant;

use anyhow::Result;

use crate::exit;

/// When it last went wrong, if it does.
pub(super) struct Standing {
    /// What becomes of a trouble.
    meanwhile: &'static str,
    trouble: Option<(String, Instant)>,
}

impl Standing {
    /// Nothing is wrong yet; of a trouble it is told what becomes of it.
    pub(super) fn new(meanwhile: &'static str) -> Standing {
        Standing { meanwhile, trouble: None }
    }

    /// Says what is new: a trouble once, and its end.
    pub(super) fn note(&mut self, outcome: Result<()>) {
        match (outcome, self.trouble.take()) {
            (Ok(()), None) => {}
            (Ok(()), Some((_, since))) => tracing::info!("it works again, after {} s", since.elapsed().as_secs()),
            (Err(error), before) => {
                let text = exit::one_line(&error);
                if before.as_ref().is_none_or(|(before, _)| *before != text) {
                    tracing::warn!("{text}; {}", self.meanwhile);
                }
                let since = before.map_or_else(Instant::now, |(_, since)| since);
                self.trouble = Some((text, since));
            }
        }
    }
}
