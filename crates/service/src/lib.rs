//! What every service of ours is made of; the agent and the controller both have these.
//!
//! Who it is and what it keeps to itself: key and certificate ([`certificate`]), files that only its user may read ([`private`]). How it
//! is set up: configuration files ([`config`]), where it keeps its state ([`environment`]), where it listens ([`listen`]), the file that says
//! that it is ready ([`ready`]), and how it is told to end ([`stop`]).

#![forbid(unsafe_code)]

pub mod certificate;
pub mod config;
pub mod environment;
pub mod listen;
pub mod private;
pub mod ready;
pub mod stop;

pub use certificate::{IDENTITY_FILE, Identity, IdentityError, ephemeral, load_or_make};
pub use config::ConfigError;
pub use environment::Environment;
pub use listen::Listen;
pub use private::{PrivateDir, StateError};
pub use ready::ReadyFile;
pub use stop::{Stop, signals};
