//! Both sides over a real socket.

use mover::event::{Progress, Started};
use mover::request::Steer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::place::Place;
use super::wire::{Reply, Request, Status};
use super::{Control, client};
use crate::output::Exporter;

const ID: &str = "3f2a9c01d2e3f4a5b6c7d8e9f0a1b2c3";

fn started(session: &str) -> mover::event::Event {
    let session = session.to_owned();
    mover::event::Event::Started(Started {
        session,
        protection: Default::default(),
        congestion: None,
        congestion_reason: None,
    })
}

struct Setting {
    _top: tempfile::TempDir,
    place: Place,
    control: Control,
    steers: mpsc::Receiver<Steer>,
}

fn setting(steers: usize) -> Setting {
    let top = tempfile::tempdir().unwrap();
    let place = Place::at(top.path().join("longhaul"));
    let (steer, steers) = mpsc::channel(steers);
    let status = Status { kind: "copy".into(), pid: 7, ..Status::default() };
    Setting { _top: top, place: place.clone(), control: Control::new(place, status, steer), steers }
}

/// The asking side blocks, so it runs beside.
async fn ask(place: &Place, id: &str, request: Request) -> anyhow::Result<Status> {
    let (place, id) = (place.clone(), id.to_owned());
    tokio::task::spawn_blocking(move || client::request(&place, &id, &request)).await.unwrap()
}

async fn list(place: &Place) -> Vec<Status> {
    let place = place.clone();
    tokio::task::spawn_blocking(move || client::list(&place).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_session_is_listed_changed_and_gone() {
    let mut setting = setting(4);
    assert!(list(&setting.place).await.is_empty());
    setting.control.event(&started(ID)).unwrap();
    let progress = Progress { bytes_done: 5, bytes_total: 9, streams: 2, ..Progress::default() };
    setting.control.event(&mover::event::Event::Progress(progress)).unwrap();

    let listed = list(&setting.place).await;
    let [status] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((status.session.as_str(), status.pid, status.bytes_done, status.streams), (ID, 7, 5, 2));

    let changed = ask(&setting.place, "3f2a", Request::Rate { rate: "8 Gb/s".into() }).await.unwrap();
    assert_eq!(changed.set_point_bps, Some(8_000_000_000));
    ask(&setting.place, "3f", Request::Streams { n: 4 }).await.unwrap();
    ask(&setting.place, ID, Request::Rate { rate: "off".into() }).await.unwrap();
    ask(&setting.place, ID, Request::Stop).await.unwrap();
    let mut asked = Vec::new();
    while let Ok(steer) = setting.steers.try_recv() {
        asked.push(steer);
    }
    assert_eq!(asked, [Steer::Rate(Some(8_000_000_000)), Steer::Streams(4), Steer::Rate(None), Steer::Stop]);

    drop(setting.control);
    assert!(setting.place.sockets().unwrap().is_empty());
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mut setting = setting(4);
    setting.control.event(&started(ID)).unwrap();
    for (request, why) in [
        (Request::Rate { rate: "8000".into() }, "has no unit"),
        (Request::Rate { rate: "0 b/s".into() }, "off"),
        (Request::Streams { n: 0 }, "1 to"),
        (Request::Streams { n: 60_000 }, "1 to"),
    ] {
        let text = format!("{:#}", ask(&setting.place, ID, request).await.unwrap_err());
        assert!(text.contains(why), "{text}");
    }
    assert!(setting.steers.try_recv().is_err());
    setting.steers.close();
    let text = format!("{:#}", ask(&setting.place, ID, Request::Stop).await.unwrap_err());
    assert!(text.contains("is ending"), "{text}");
}

#[tokio::test]
async fn an_id_must_fit_one_session() {
    let (mut one, mut two) = (setting(1), setting(1));
    two.control.place = one.place.clone();
    one.control.event(&started("aa11")).unwrap();
    two.control.event(&started("aa22")).unwrap();
    for (id, why) in [("aa", "aa11, aa22"), ("", "aa11, aa22"), ("bb", "no session bb")] {
        let text = ask(&one.place, id, Request::Status).await.unwrap_err().to_string();
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(ask(&one.place, "aa2", Request::Status).await.unwrap().session, "aa22");
}

#[tokio::test]
async fn after_a_reconnect_the_new_id_counts() {
    let mut setting = setting(1);
    setting.control.event(&started("aa11")).unwrap();
    setting.control.event(&started("bb22")).unwrap();
    let listed = list(&setting.place).await;
    assert_eq!(listed.iter().map(|status| status.session.as_str()).collect::<Vec<_>>(), ["bb22"]);
}

#[tokio::test]
async fn what_the_dead_left_behind_is_removed() {
    let mut setting = setting(1);
    setting.control.event(&started("aa11")).unwrap();
    let dead = setting.place.socket("dead").unwrap();
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    assert!(dead.exists());
    assert_eq!(list(&setting.place).await.len(), 1);
    assert!(!dead.exists());
}

#[tokio::test]
async fn one_that_ends_while_it_is_asked_is_told_as_that() {
    let mut setting = setting(1);
    setting.control.event(&started("aa11")).unwrap();
    let going = setting.place.socket("bb22").unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&going).unwrap();
    let ends = tokio::task::spawn_blocking(move || {
        let asked = listener.accept().unwrap();
        std::fs::remove_file(&going).unwrap();
        drop(asked);
    });
    let text = ask(&setting.place, "bb22", Request::Status).await.unwrap_err().to_string();
    assert_eq!(text, "session bb22 ended before it answered");
    ends.await.unwrap();
}

/// Whoever says what is no request is told so or hung up on, and those after it are served.
#[tokio::test]
async fn no_line_harms_the_session() {
    let mut setting = setting(1);
    setting.control.event(&started(ID)).unwrap();
    let socket = setting.place.socket(ID).unwrap();
    let lines: [&[u8]; 5] = [b"\n", b"{}\n", b"\xff\xfe\n", &[b'['; 4000], &[b' '; 200_000]];
    for line in lines {
        let mut stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
        let _ = stream.write_all(line).await;
        let _ = stream.shutdown().await;
        let mut said = String::new();
        let heard = tokio::time::timeout(super::REQUEST_TIME_MAX * 2, stream.read_to_string(&mut said));
        let _ = heard.await.expect("it does not wait for more");
        let is_refused = |said: &str| serde_json::from_str::<Reply>(said).is_ok_and(|reply| !reply.ok);
        assert!(said.is_empty() || is_refused(&said), "{line:?}: {said}");
        assert_eq!(list(&setting.place).await.len(), 1);
    }
    assert!(setting.steers.try_recv().is_err(), "nothing was changed");
}
