//! How a service is told to end.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// What is asked of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stop {
    /// Go on.
    #[default]
    No,
    /// Let sessions finish their chunks, then end.
    Finish,
    /// End.
    Now,
}

/// SIGTERM and SIGINT of this process: the first asks to finish, the second to end at once.
///
/// # Errors
/// When signals cannot be had.
pub fn signals() -> io::Result<watch::Receiver<Stop>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(Stop::No);
    tokio::spawn(async move {
        for stop in [Stop::Finish, Stop::Now] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!(?stop, "asked to stop");
            sender.send_replace(stop);
        }
        // Kept, so that whoever waits sees "now" and not the end of the channel.
        sender.closed().await;
    });
    Ok(receiver)
}

/// Waits until at least `what` is asked; for ever if nobody is left to ask.
pub async fn asked(stop: &mut watch::Receiver<Stop>, what: Stop) {
    if stop.wait_for(|stop| *stop >= what).await.is_err() {
        std::future::pending::<()>().await;
    }
}
