//! Files of questions, answered: the kind of a file is told by its keys, answers in it are ignored, and what comes out has the
//! same structure with the answers filled in.
//!
//! Numbers are decimals; one power of ten for each file makes integers of them all, and the questions go to the functions that
//! every command asks.

mod calendar;
mod decimal;
mod paths;
mod shares;
mod slots;

use serde_json::Value;

use crate::book::Holder;

/// Bytes of a file of questions.
pub const TEXT_MAX: usize = 64 << 20;

/// Why a file cannot be answered: what in it, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnswerError(String);

/// Answers the questions of a file.
///
/// # Errors
/// The first thing in the file that is no question of a known kind.
pub fn answer(text: &str) -> Result<Value, AnswerError> {
    if text.len() > TEXT_MAX {
        return Err(refused(format!("longer than {} MiB: ask in several files", TEXT_MAX >> 20)));
    }
    let mut file: Value = serde_json::from_str(text).map_err(|error| refused(format!("no JSON: {error}")))?;
    let fill = if slots::is_kind(&file) {
        slots::fill
    } else if calendar::is_kind(&file) {
        calendar::fill
    } else if shares::is_kind(&file) {
        shares::fill
    } else if paths::is_kind(&file) {
        paths::fill
    } else {
        let kinds = "`links` and `queries`, `available_at`, `cases` with `flows` or `groups`, or groups with `edges`";
        return Err(refused(format!("no file of questions: it has {kinds}")));
    };
    fill(&mut file)?;
    Ok(file)
}

/// Who has the reservations of a file.
fn holder() -> Holder {
    Holder { name: "file".to_owned(), class: "reservation".to_owned() }
}

fn refused(problem: String) -> AnswerError {
    AnswerError(problem)
}
