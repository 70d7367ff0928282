//! Why an agent does not run (any more).

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use service::IdentityError;

use crate::config::ConfigError;
use crate::tokens::TokenError;

/// Why an agent did not start or ended early. The cause is the `source`.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The configuration cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// There are no tokens.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// What is kept of the controller cannot be used.
    #[error(transparent)]
    Controller(service::StateError),
    /// The port for control and data cannot be had.
    #[error("cannot listen at {address}{}", listen_hint(source, "--listen"))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The socket at which a door is waited for cannot be had.
    #[error("cannot wait for the door at {}{}", path.display(), door_hint(source))]
    Door {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The port for metrics cannot be had.
    #[error("cannot serve metrics at {address}{}", listen_hint(source, "--metrics"))]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No port of the range is free.
    #[error("no port from {first} to {last} is free: give a wider range")]
    Ports {
        /// First port of the range.
        first: u16,
        /// Last port of the range.
        last: u16,
        /// What the system said of the last.
        #[source]
        source: io::Error,
    },
    /// The ready file cannot be written.
    #[error("cannot write the ready file {}", path.display())]
    Ready {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The accepting socket failed.
    #[error("cannot accept connections any more")]
    Serve(#[source] io::Error),
    /// Something else of the operating system.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The one who started it over ssh said nothing that makes sense.
    #[error("cannot serve this ssh login: {0}; the two ends may be of different versions")]
    Call(String),
    /// The one who started it over ssh cannot be connected back to.
    #[error("cannot connect back to the other end of this ssh login")]
    ConnectBack(#[source] mover::session::SessionError),
    /// It was told to stop, and then to stop at once or it took too long.
    #[error("stopped before the sessions were finished ({0}); they can be resumed")]
    Cut(Cut),
}

/// Why sessions were cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It was asked to stop a second time.
    Asked,
    /// They did not finish within [`crate::STOP_GRACE`].
    Late,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cut::Asked => f.write_str("it was told to, twice"),
            Cut::Late => write!(f, "they took more than {} s", crate::STOP_GRACE.as_secs()),
        }
    }
}

impl AgentError {
    /// Exit code of a command that ends with this.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            AgentError::Config(_) | AgentError::Identity(IdentityError::State(_)) | AgentError::Controller(_) => 2,
            AgentError::Tokens(error) => match error {
                // It does not get better by starting again, which is what 1 asks of a service manager.
                TokenError::State(_) => 2,
                other => other.exit_code(),
            },
            // As shells count: 128 and SIGINT.
            AgentError::Cut(Cut::Asked) => 130,
            _ => 1,
        }
    }
}

fn door_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => ": another agent waits there; give each a socket of its own with --door",
        io::ErrorKind::NotFound => ": its directory is not there; make it, for the group of the door (docs/users.md)",
        io::ErrorKind::PermissionDenied => ": its directory is not this user's (docs/users.md)",
        _ => "",
    }
}

fn listen_hint(source: &io::Error, option: &str) -> String {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            format!(": another program has this port; choose another with {option}")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!(": this host does not have that address; choose another with {option}")
        }
        io::ErrorKind::PermissionDenied => {
            format!(": ports below 1024 need a privilege; choose another with {option}")
        }
        _ => String::new(),
    }
}
