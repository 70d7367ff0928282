//! From what the mover tells to the causes that a controller decides by.

use std::io;

use api::agent::Cause;
use mover::event::FileEvent;
use mover::request::{MoveError, Why};
use proto::control::Code;

/// Characters of a text for people that goes to the controller.
const TEXT_CHARS_MAX: usize = 400;

/// A text for people as it travels: one line of bounded length.
#[must_use]
pub fn shown(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(TEXT_CHARS_MAX).collect()
}

/// Why a file is not in place; `None` if it is.
#[must_use]
pub fn of_file(event: &FileEvent) -> Option<Cause> {
    match event.outcome {
        "placed" | "equal" => None,
        "kept" => Some(Cause::Exists),
        "changed" => Some(Cause::Changed),
        "corrupt" => Some(Cause::Corrupt),
        _ => Some(event.why.as_deref().and_then(Why::system_number).map_or(Cause::Other, of_system)),
    }
}

/// Why a session ended early.
#[must_use]
pub fn of_end(error: &MoveError) -> Cause {
    match error.why {
        Why::Refused(_, Some(number)) => of_system(number),
        Why::Refused(Code::Busy, None) | Why::Busy => Cause::Busy,
        Why::Refused(Code::Denied | Code::Path, None) => Cause::Refused,
        Why::Refused(Code::Stopping | Code::Unreachable, None) | Why::Network => Cause::Network,
        Why::Refused(Code::Protocol | Code::Failed | Code::Version, None) | Why::Other => Cause::Other,
        Why::System(number) => number.map_or(Cause::Other, of_system),
        Why::Stopped => Cause::Stopped,
    }
}

/// What an error of the storage means.
#[must_use]
pub fn of_io(error: &io::Error) -> Cause {
    match error.raw_os_error() {
        Some(number) => of_system(number),
        None => of_kind(error.kind()),
    }
}

fn of_system(number: i32) -> Cause {
    of_kind(io::Error::from_raw_os_error(number).kind())
}

fn of_kind(kind: io::ErrorKind) -> Cause {
    use io::ErrorKind::*;
    match kind {
        NotFound => Cause::NotFound,
        PermissionDenied | ReadOnlyFilesystem => Cause::Permission,
        AlreadyExists | NotADirectory | IsADirectory | DirectoryNotEmpty => Cause::Exists,
        StorageFull | QuotaExceeded => Cause::NoSpace,
        ConnectionRefused | ConnectionReset | ConnectionAborted | NotConnected | HostUnreachable
        | NetworkUnreachable | NetworkDown | TimedOut | BrokenPipe | AddrNotAvailable => Cause::Network,
        // EIO has no kind of its own.
        _ => Cause::Storage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(outcome: &'static str, why: Option<&str>) -> FileEvent {
        let why = why.map(str::to_owned);
        FileEvent { path: "a".into(), path_bytes: None, outcome, size: 1, why, digest: None }
    }

    #[test]
    fn causes_by_kind() {
        assert_eq!(of_file(&file("placed", None)), None);
        assert_eq!(of_file(&file("kept", None)), Some(Cause::Exists));
        for (text, cause) in [
            ("preparing a: No space left on device (os error 28)", Cause::NoSpace),
            ("reading a: Input/output error (os error 5)", Cause::Storage),
            ("cannot look at it: No such file or directory (os error 2)", Cause::NotFound),
            ("reading a: Permission denied (os error 13)", Cause::Permission),
            ("hook before_file failed", Cause::Other),
        ] {
            assert_eq!(of_file(&file("failed", Some(text))), Some(cause), "{text}");
        }
        let error = |why| MoveError { exit_code: 1, text: String::new(), source: None, again: false, why };
        assert_eq!(of_end(&error(Why::Refused(Code::Failed, Some(28)))), Cause::NoSpace);
        assert_eq!(of_end(&error(Why::Refused(Code::Denied, None))), Cause::Refused);
        assert_eq!(of_end(&error(Why::System(Some(5)))), Cause::Storage);
        assert_eq!(of_end(&error(Why::Network)), Cause::Network);
    }

    #[test]
    fn texts_are_one_short_line() {
        let text = shown(&"a\nb\u{1b}[0m".repeat(1000));
        assert_eq!(text.chars().count(), TEXT_CHARS_MAX);
        assert!(!text.contains(char::is_control));
    }
}
