//! What a controller knows of its network now, for who makes a twin of it.

use anyhow::Result;
use api::rest::Link;

use super::client::{Content, Controller};
use crate::action::block_on;
use crate::args::controller::ReachArgs;
use crate::environment::Environment;

/// Files as the controller has them, and what it sees.
pub(crate) struct Known {
    /// The network (TOML).
    pub(crate) network: String,
    /// What is booked of it (TOML).
    pub(crate) bookings: String,
    /// Directions of links with their loads and states.
    pub(crate) links: Vec<Link>,
}

/// Asks a controller.
///
/// # Errors
/// When it is not named or cannot be reached, says no, or has no network.
pub(crate) fn known(reach: &ReachArgs, environment: &Environment) -> Result<Known> {
    let controller = Controller::of(reach, environment)?;
    crate::action::log_to_stderr("off");
    block_on(async {
        let network = text(&controller, "/api/v1/network").await?;
        let bookings = text(&controller, "/api/v1/bookings").await?;
        let links = controller.get("/api/v1/links").await?;
        Ok(Known { network, bookings, links })
    })
}

async fn text(controller: &Controller, path: &str) -> Result<String> {
    let bytes = controller.bytes("GET", path, Content::None, None).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
