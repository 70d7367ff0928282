//! What clients hear when the log refuses a turn: a core that is led by hand.

use super::*;
use crate::store::StoreError;

/// A face, and the core behind it, whose turns a test makes.
fn by_hand() -> (tempfile::TempDir, Core, Arc<Face>, mpsc::Receiver<super::super::Ask>) {
    let directory = tempfile::tempdir().expect("a directory");
    let core = crate::core::open(&Place::Directory(directory.path().join("store"))).expect("a store");
    let (asks, asked) = mpsc::channel(1);
    let face = Arc::new(Face::new(asks, Arc::clone(&core.shared), String::new()));
    (directory, core, face, asked)
}

pub(super) fn full() -> StoreError {
    StoreError::Full { what: "write events", place: "here".to_owned(), source: "no room".into() }
}

fn me() -> Caller {
    Caller { name: "me".to_owned(), role: Role::Admin }
}

#[tokio::test]
async fn what_the_log_refuses_did_not_happen_and_reads_go_on() {
    let (_directory, mut core, face, mut asked) = by_hand();
    let writer = tokio::spawn({
        let face = Arc::clone(&face);
        async move { face.set_network(&me(), NETWORK.to_owned()).await }
    });
    asked.recv().await.expect("it asks")(&mut core);
    // In the same turn somebody looks: at what is not durable.
    let reader = tokio::spawn({
        let face = Arc::clone(&face);
        async move { face.network(&me()).await }
    });
    asked.recv().await.expect("it asks")(&mut core);
    assert!(core.state.network.is_some());
    core.refused(&full());
    let refused = writer.await.expect("no panic").expect_err("it is not durable");
    assert!(refused.kind == Kind::StoreFull && refused.detail.contains("the disk is full"), "{refused}");
    assert_eq!(kind(face.health()), Kind::StoreFull);
    // It looks anew, while the disk is full still.
    asked.recv().await.expect("it asks again")(&mut core);
    core.commit();
    assert_eq!(kind(reader.await.expect("no panic")), Kind::NotFound, "there is no network");
}

#[tokio::test]
async fn a_busy_core_and_one_that_is_gone_are_told_apart() {
    let (_directory, core, face, asked) = by_hand();
    let waiting = tokio::spawn({
        let face = Arc::clone(&face);
        async move { face.agents(&me()).await }
    });
    tokio::task::yield_now().await;
    let busy = face.agents(&me()).await.expect_err("the queue has one place");
    assert!(busy.kind == Kind::TooMany && busy.again_seconds.is_some(), "{busy}");
    drop(asked);
    drop(core);
    assert_eq!(kind(waiting.await.expect("no panic")), Kind::Unavailable);
    assert_eq!(kind(face.agents(&me()).await), Kind::Unavailable);
    assert_eq!(kind(face.health()), Kind::Unavailable);
}
