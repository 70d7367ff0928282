use std::time::Instant;

use proto::hello::{Connecting, REPLY};

use super::*;
use crate::net::open::plain_settings;

const SESSION: SessionId = [3; 16];
const KEY: SessionKey = SessionKey([2; 32]);

/// A connection, and what the hub makes of it as a data stream.
async fn stream(hub: &Arc<Hub>) -> (TcpStream, tokio::task::JoinHandle<Result<(), String>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let hub = hub.clone();
    (near, tokio::spawn(async move { data_stream(far, &hub).await }))
}

fn hub() -> Arc<Hub> {
    Hub::new(4, 4, Arc::default())
}

fn door(hub: &Arc<Hub>) -> Option<(Arrivals, DoorKeeper)> {
    hub.door(SESSION, KEY, &plain_settings())
}

/// Says hello for stream 7.
async fn hello(near: &mut TcpStream) -> Connecting {
    let (state, hello) = Connecting::new(KEY, SESSION, 7, [4; 16]);
    near.write_all(&hello).await.unwrap();
    state
}

async fn reply(near: &mut TcpStream) -> [u8; REPLY] {
    let mut reply = [0; REPLY];
    near.read_exact(&mut reply).await.unwrap();
    reply
}

/// Until the stream is one of those that wait.
async fn until_it_waits(hub: &Hub) {
    while hub.silent.len() == 0 || hub.handshakes.len() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_stream_waits_for_its_session() {
    let hub = hub();
    let (mut near, serving) = stream(&hub).await;
    let state = hello(&mut near).await;
    until_it_waits(&hub).await;
    let _other = hub.door([9; 16], KEY, &plain_settings()).expect("it is the first");
    let (mut arrivals, _keeper) = door(&hub).expect("it is the first");
    let (finish, secrets) = state.reply(&reply(&mut near).await).expect("it is let in");
    near.write_all(&finish).await.unwrap();
    let opened = arrivals.streams.recv().await.expect("it is handed over");
    assert_eq!((opened.id, opened.secrets), (7, secrets));
    assert_eq!(serving.await.unwrap(), Ok(()));
    assert_eq!((hub.silent.len(), hub.handshakes.len()), (0, 0));
}

#[tokio::test]
async fn a_stream_whose_session_does_not_come_is_refused() {
    let hub = hub();
    let begin = Instant::now();
    let (mut near, serving) = stream(&hub).await;
    hello(&mut near).await;
    assert_eq!(reply(&mut near).await, refusal(status::NO_SESSION));
    assert!(begin.elapsed() >= EARLY);
    assert!(serving.await.unwrap().is_err());
}

#[tokio::test]
async fn a_stream_that_ends_or_goes_on_meanwhile_is_not_waited_with() {
    for more in [&b""[..], b"x"] {
        let hub = hub();
        let (mut near, serving) = stream(&hub).await;
        hello(&mut near).await;
        until_it_waits(&hub).await;
        near.write_all(more).await.unwrap();
        near.shutdown().await.unwrap();
        let begin = Instant::now();
        assert_eq!(serving.await.unwrap().is_ok(), more.is_empty(), "an end is no offence");
        assert!(begin.elapsed() < EARLY / 2);
    }
}

#[tokio::test]
async fn a_number_is_one_session_s() {
    let hub = hub();
    let (_arrivals, keeper) = door(&hub).expect("it is the first");
    assert!(door(&hub).is_none());
    drop(keeper);
    assert!(door(&hub).is_some());
}
