use api::agent::{Inventory, Mode, PROTOCOL};
use tokio::io::DuplexStream;

use super::*;

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

fn hello() -> FromAgent {
    FromAgent::Hello(Hello {
        protocol: PROTOCOL,
        version: "1".to_owned(),
        enrol: None,
        process: 1,
        sessions: Vec::new(),
        inventory: Inventory::default(),
        mode: Mode::Active,
    })
}

/// The agent's end of a connection that is served, and what the core hears.
fn connect(fingerprint: Option<Fingerprint>) -> (DuplexStream, mpsc::Receiver<Heard>) {
    let (agent, controller) = tokio::io::duplex(1 << 16);
    let (heard, hears) = mpsc::channel(8);
    tokio::spawn(serve(controller, fingerprint, FROM, heard));
    (agent, hears)
}

async fn say(agent: &mut DuplexStream, message: &FromAgent) {
    agent.write_all(&encode(message).expect("it is short")).await.expect("it is open");
}

/// All that the controller says until it closes the connection or is silent for a moment.
async fn said(agent: &mut DuplexStream) -> (Vec<ToAgent>, bool) {
    let (mut decoder, mut said, mut bytes) = (Decoder::default(), Vec::new(), [0; 4096]);
    loop {
        match timeout(Duration::from_millis(100), agent.read(&mut bytes)).await {
            Err(_) => return (said, false),
            Ok(Ok(0) | Err(_)) => return (said, true),
            Ok(Ok(count)) => decoder.push(&bytes[..count]),
        }
        while let Some(message) = decoder.next_message().expect("frames") {
            said.push(message.expect("known"));
        }
    }
}

async fn welcome(hears: &mut mpsc::Receiver<Heard>) -> Out {
    let Some(Heard::Hello(arrival)) = hears.recv().await else { panic!("it said hello") };
    let welcome = Welcome { host: "a".to_owned(), protocol: PROTOCOL, keep: Vec::new() };
    arrival.answer.send(Ok(welcome)).expect("it waits");
    arrival.out
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_greeted_and_heard() {
    let (mut agent, mut hears) = connect(Some(Fingerprint([1; 32])));
    say(&mut agent, &hello()).await;
    let out = welcome(&mut hears).await;
    assert!(out.tell(ToAgent::Stop { session: 3 }));
    let (said, closed) = said(&mut agent).await;
    assert!(matches!(&said[..], [ToAgent::Welcome(_), ToAgent::Stop { session: 3 }]), "{said:?}");
    assert!(!closed);
    let failed = FromAgent::Mode(api::agent::ModeSet { mode: Mode::Paused, reason: "disks".to_owned() });
    say(&mut agent, &FromAgent::Ping).await;
    say(&mut agent, &failed).await;
    assert!(matches!(hears.recv().await, Some(Heard::Said(_, message)) if *message == failed));
    drop(agent);
    assert!(matches!(hears.recv().await, Some(Heard::Gone(..))));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_say_hello_is_let_go() {
    for first in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &encode(&FromAgent::Ping).expect("it is short")] {
        let (mut agent, mut hears) = connect(Some(Fingerprint([1; 32])));
        agent.write_all(first).await.expect("it is open");
        let mut bytes = [0; 16];
        let begin = Instant::now();
        assert_eq!(agent.read(&mut bytes).await.expect("it is closed in good order"), 0);
        assert!(begin.elapsed() <= HELLO_TIME + Duration::from_secs(1));
        assert!(hears.recv().await.is_none(), "the core hears nothing of it");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_not_taken_is_told_why() {
    let (mut agent, mut hears) = connect(Some(Fingerprint([1; 32])));
    say(&mut agent, &hello()).await;
    let Some(Heard::Hello(arrival)) = hears.recv().await else { panic!("it said hello") };
    let turned = Turned { reason: "unknown".to_owned(), again: false };
    arrival.answer.send(Err(turned.clone())).expect("it waits");
    assert_eq!(said(&mut agent).await, (vec![ToAgent::Turned(turned)], true));
    // Without a certificate the core is not asked.
    let (mut agent, mut hears) = connect(None);
    say(&mut agent, &hello()).await;
    assert!(matches!(&said(&mut agent).await, (said, true) if matches!(&said[..], [ToAgent::Turned(_)])));
    assert!(hears.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn silence_is_the_end_and_pings_prevent_it() {
    let (mut agent, mut hears) = connect(Some(Fingerprint([1; 32])));
    say(&mut agent, &hello()).await;
    let _out = welcome(&mut hears).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(SILENCE_MS - 1000)).await;
        say(&mut agent, &FromAgent::Ping).await;
    }
    assert!(timeout(Duration::from_millis(SILENCE_MS - 1000), hears.recv()).await.is_err());
    assert!(matches!(hears.recv().await, Some(Heard::Gone(_, why)) if why.contains("silent")));
    let (said, _) = said(&mut agent).await;
    assert!(said.contains(&ToAgent::Ping), "the controller is heard, too");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_takes_nothing_is_not_waited_for() {
    let (mut agent, mut hears) = connect(Some(Fingerprint([1; 32])));
    say(&mut agent, &hello()).await;
    let out = welcome(&mut hears).await;
    let mut told = 0;
    while out.tell(ToAgent::Stop { session: told }) {
        told += 1;
        if told.is_multiple_of(64) {
            tokio::task::yield_now().await;
        }
        assert!(told < 1_000_000, "the queue has a bound");
    }
    assert!(
        matches!(hears.recv().await, Some(Heard::Gone(_, why)) if why.contains("took nothing") || why.contains("silent"))
    );
}
