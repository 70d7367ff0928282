//! A session does what the operator of this end says of it, whoever drives it.

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::request::Steer;
use crate::server::Standing;
use crate::session::Steering;

/// Changes that wait for the session.
const CHANGES_MAX: usize = 4;

/// As long as this is there the operator is listened to.
pub(super) struct Obeys(JoinHandle<()>);

impl Drop for Obeys {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Listens to the operator: what steers the session comes out of the answer, its end goes to `stop`. The receiver is there until the
/// answer is dropped, so that the operator's end sees when the session is over.
pub(super) fn begin(mut standing: watch::Receiver<Standing>, stop: watch::Sender<bool>) -> (Steering, Obeys) {
    let (steer, changes) = mpsc::channel(CHANGES_MAX);
    let obeys = tokio::spawn(async move {
        listen(&mut standing, steer, stop).await;
        std::future::pending::<()>().await;
    });
    (Steering::new(changes), Obeys(obeys))
}

async fn listen(standing: &mut watch::Receiver<Standing>, steer: mpsc::Sender<Steer>, stop: watch::Sender<bool>) {
    let mut is_still = false;
    loop {
        let now = *standing.borrow_and_update();
        if now == Standing::Over {
            stop.send_replace(true);
            return;
        }
        if is_still != (now == Standing::Still) {
            is_still = !is_still;
            if steer.send(Steer::Rate(is_still.then_some(0))).await.is_err() {
                return;
            }
        }
        if standing.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_the_operator_says_is_done() {
        let (operator, standing) = watch::channel(Standing::Still);
        let (stop, mut stopped) = watch::channel(false);
        let (changes, obeys) = begin(standing, stop);
        assert_eq!(changes.next().await, Some(Steer::Rate(Some(0))), "it was still before the session began");
        operator.send_replace(Standing::Goes);
        assert_eq!(changes.next().await, Some(Steer::Rate(None)));
        operator.send_replace(Standing::Over);
        stopped.wait_for(|stopped| *stopped).await.unwrap();
        assert_eq!(changes.next().await, None, "nothing more is said");
        assert_eq!(operator.receiver_count(), 1, "the session has not ended");
        drop(obeys);
        operator.closed().await;
    }
}
