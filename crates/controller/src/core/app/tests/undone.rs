//! What clients hear when the log refuses a turn: a core that is led by hand.

use super::*;
use crate::core::{Doors, Queues};
use crate::store::StoreError;

/// A face, and the core behind it, whose turns a test makes.
fn by_hand() -> (tempfile::TempDir, Core, Arc<Face>, Queues) {
    let directory = tempfile::tempdir().expect("a directory");
    let core =
        crate::core::open(&Place::Directory(directory.path().join("store")), crate::store::Keep::All).expect("a store");
    let ((look, looks), (ask, asks), (hear, heard)) = (mpsc::channel(1), mpsc::channel(1), mpsc::channel(1));
    let doors = Doors { looks: look, asks: ask, heard: hear };
    let face = Arc::new(Face::new(doors, Arc::clone(&core.shared), String::new()));
    (directory, core, face, Queues { looks, asks, heard })
}

pub(super) fn full() -> StoreError {
    StoreError::Full { what: "write events", place: "here".to_owned(), source: "no room".into() }
}

fn me() -> Caller {
    Caller { name: "me".to_owned(), role: Role::Admin }
}

#[tokio::test]
async fn what_the_log_refuses_did_not_happen_and_reads_go_on() {
    let (_directory, mut core, face, mut queues) = by_hand();
    let writer = tokio::spawn({
        let face = Arc::clone(&face);
        async move { face.set_network(&me(), NETWORK.to_owned()).await }
    });
    queues.asks.recv().await.expect("it asks")(&mut core);
    // Meanwhile somebody looks: not before the turn has ended.
    let reader = tokio::spawn({
        let face = Arc::clone(&face);
        async move { face.network(&me()).await }
    });
    tokio::task::yield_now().await;
    assert!(core.state.network.is_some());
    core.refused(&full());
    let refused = writer.await.expect("no panic").expect_err("it is not durable");
    assert!(refused.kind == Kind::StoreFull && refused.detail.contains("the disk is full"), "{refused}");
    assert_eq!(kind(face.health()), Kind::StoreFull);
    queues.looks.recv().await.expect("it asks")(&mut core);
    assert_eq!(kind(reader.await.expect("no panic")), Kind::NotFound, "there is no network");
}

#[tokio::test]
async fn a_busy_core_and_one_that_is_gone_are_told_apart() {
    let (_directory, core, face, queues) = by_hand();
    let waiting = tokio::spawn({
        let face = Arc::clone(&face);
        async move { face.agents(&me()).await }
    });
    tokio::task::yield_now().await;
    let busy = face.agents(&me()).await.expect_err("the queue has one place");
    assert!(busy.kind == Kind::TooMany && busy.again_seconds.is_some(), "{busy}");
    drop(queues);
    drop(core);
    assert_eq!(kind(waiting.await.expect("no panic")), Kind::Unavailable);
    assert_eq!(kind(face.agents(&me()).await), Kind::Unavailable);
    assert_eq!(kind(face.health()), Kind::Unavailable);
}
