use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use proto::control::{Bye, Code, Refusal};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::Notify;

use super::super::Link;
use super::*;

const SESSION: SessionId = [1; 16];
const KEY: SessionKey = SessionKey([2; 32]);
/// Bytes on the way.
const PIPE: usize = 1 << 10;
const TIMEOUT: Duration = Duration::from_secs(20);

/// Two hosts between which connections can be had.
struct Net {
    /// Number of connections so far: each has a binding of its own.
    made: AtomicU32,
    arrivals: mpsc::Sender<Arrival>,
    /// What carries the connection in force; it ends with it.
    carrier: Mutex<JoinSet<()>>,
    stall: Arc<Notify>,
    /// True if the accepting end does not know the session any more.
    forgotten: bool,
}

impl Net {
    /// A connection from the connecting end to the accepting end, which is cut when there is another or on demand.
    fn connect(&self) -> (DuplexStream, DuplexStream) {
        let ((near, mut a), (mut b, far)) = (duplex(PIPE), duplex(PIPE));
        let mut carrier = JoinSet::new();
        let stall = self.stall.clone();
        carrier.spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut a, &mut b) => {}
                () = stall.notified() => std::future::pending().await,
            }
        });
        *self.carrier.lock().unwrap() = carrier;
        (near, far)
    }

    fn cut(&self) {
        *self.carrier.lock().unwrap() = JoinSet::new();
    }

    /// Nothing arrives any more, and nobody is told.
    fn stall(&self) {
        self.stall.notify_waiters();
    }

    async fn accept(self: Arc<Net>, mut far: DuplexStream, binding: Binding) {
        let Ok(Control::Attach(attach)) = read(&mut far, FRAME_MAX_UNAUTHENTICATED).await else { return };
        attach.verify(&KEY, &binding).expect("the key is known");
        if self.forgotten {
            let why = Refusal { code: Code::Failed, text: "unknown".to_owned() };
            let _ = write(&mut far, &Control::Refused(why)).await;
            return;
        }
        let _ = self.arrivals.send(Arrival { stream: Box::new(far), attach, binding }).await;
    }
}

/// A link between two hosts: the connecting end, the accepting end.
fn link(forgotten: bool) -> (Arc<Net>, Link, Link) {
    link_after(forgotten, Vec::new())
}

/// The same; the connecting end has said something already, which is on the way.
fn link_after(forgotten: bool, said: Vec<Control>) -> (Arc<Net>, Link, Link) {
    let (arrivals, inbox) = mpsc::channel(4);
    let net = Arc::new(Net {
        made: AtomicU32::new(0),
        arrivals,
        carrier: Mutex::default(),
        stall: Arc::default(),
        forgotten,
    });
    let (near, far) = net.connect();
    let dial: Dial = Box::new({
        let net = net.clone();
        move |_| {
            let net = net.clone();
            Box::pin(async move {
                let number = net.made.fetch_add(1, Ordering::Relaxed);
                let binding = Binding([number as u8; 32]);
                let (near, far) = net.connect();
                tokio::spawn(net.clone().accept(far, binding.clone()));
                Ok((Box::new(near) as Box<dyn Io>, binding))
            })
        }
    });
    let lasting = |renewal, said| Lasting { session: SESSION, key: KEY, renewal, said, timeout: TIMEOUT };
    let near = Link::lasting(near, lasting(Renewal::Dial(dial), said), None);
    let far = Link::lasting(far, lasting(Renewal::Wait(inbox), Vec::new()), None);
    (net, near, far)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("in time") });
}

/// Sends all numbers to the other end and takes as many; pauses in between let connections be cut anywhere.
async fn exchange(link: &mut Link, count: u64) {
    let (mut sent, mut taken) = (0, 0);
    while sent < count || taken < count {
        if sent < count && link.has_room() {
            link.send(Control::Ping(sent)).await;
            sent += 1;
            continue;
        }
        assert_eq!(link.recv().await.expect("the link lasts"), Control::Ping(taken));
        taken += 1;
    }
}

#[test]
fn every_message_arrives_once_and_in_order_over_any_number_of_connections() {
    const MESSAGES: u64 = 20_000;
    const CUTS: u32 = 4;
    run(async {
        let (net, mut near, mut far) = link(false);
        let cutting = async {
            for n in 0..CUTS {
                // Another connection is dialled a second after the one before it.
                while net.made.load(Ordering::Relaxed) < n {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
                net.cut();
            }
        };
        tokio::join!(exchange(&mut near, MESSAGES), exchange(&mut far, MESSAGES), cutting);
        assert_eq!(net.made.load(Ordering::Relaxed), CUTS);
    });
}

#[test]
fn a_silent_connection_is_replaced() {
    run(async {
        let (net, mut near, mut far) = link(false);
        exchange_one(&mut near, &mut far, 1).await;
        net.stall();
        near.send(Control::Ping(2)).await;
        far.send(Control::Pong(2)).await;
        let begin = Instant::now();
        assert_eq!(far.recv().await.expect("the link lasts"), Control::Ping(2));
        assert_eq!(near.recv().await.expect("the link lasts"), Control::Pong(2));
        let paused = begin.elapsed();
        assert!(paused < SILENCE + Duration::from_millis(1500), "{paused:?}");
        assert_eq!(net.made.load(Ordering::Relaxed), 1);
    });
}

async fn exchange_one(near: &mut Link, far: &mut Link, n: u64) {
    near.send(Control::Ping(n)).await;
    assert_eq!(far.recv().await.expect("the link lasts"), Control::Ping(n));
}

#[test]
fn an_idle_connection_is_not_cut() {
    run(async {
        let (net, near, far) = link(false);
        tokio::time::sleep(2 * SILENCE).await;
        assert_eq!(net.made.load(Ordering::Relaxed), 0);
        let now = Instant::now();
        assert!([&near, &far].iter().all(|link| link.is_heard(now) && link.works(now)));
        let later = now + SILENCE;
        assert!(!near.works(later - HEARTBEAT) && !near.is_heard(later + HEARTBEAT));
    });
}

#[test]
fn a_session_that_is_not_known_any_more_is_lost() {
    run(async {
        let (net, mut near, _far) = link(true);
        net.cut();
        assert!(matches!(near.recv().await, Err(LinkError::Lost(_))));
    });
}

#[test]
fn an_end_to_which_nobody_comes_back_ends_soon() {
    run(async {
        let (_net, near, mut far) = link(false);
        let begin = Instant::now();
        drop(near);
        assert!(matches!(far.recv().await, Err(LinkError::Lost(_))));
        assert!(begin.elapsed() >= CLOSED);
    });
}

#[test]
fn after_a_goodbye_nobody_connects_again() {
    run(async {
        let (net, mut near, far) = link(false);
        far.send(Control::Bye(Bye::Done)).await;
        let begin = Instant::now();
        far.close(TIMEOUT).await;
        assert!(begin.elapsed() < Duration::from_secs(2), "the goodbye is acknowledged");
        assert_eq!(near.recv().await.expect("it was said"), Control::Bye(Bye::Done));
        assert!(matches!(near.recv().await, Err(LinkError::Lost(_))));
        assert_eq!(net.made.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn last_words_survive_a_cut() {
    run(async {
        let (net, near, mut far) = link(false);
        net.cut();
        near.send(Control::Bye(Bye::Done)).await;
        let said = async {
            assert_eq!(far.recv().await.expect("it was said"), Control::Bye(Bye::Done));
        };
        tokio::join!(near.close(TIMEOUT), said);
    });
}

#[test]
fn what_was_said_before_the_link_is_said_again_if_it_was_lost() {
    run(async {
        // It never arrived: nothing wrote it.
        let (net, near, mut far) = link_after(false, vec![Control::Ping(1), Control::Ping(2)]);
        near.send(Control::Ping(3)).await;
        net.cut();
        for n in 1..=3 {
            assert_eq!(far.recv().await.expect("the link lasts"), Control::Ping(n));
        }
    });
}

#[test]
fn what_was_said_before_the_link_is_not_said_again_over_the_same_connection() {
    run(async {
        let (_net, near, mut far) = link_after(false, vec![Control::Ping(1), Control::Ping(2)]);
        near.send(Control::Ping(3)).await;
        // What wrote the others is not here.
        assert_eq!(far.recv().await.expect("it was sent"), Control::Ping(3));
    });
}

#[test]
fn a_breach_ends_the_link() {
    run(async {
        for breach in [Control::Received(1), Control::Received(u64::MAX)] {
            let (_arrivals, inbox) = mpsc::channel(1);
            let (near, mut peer) = duplex(PIPE);
            let renewal = Renewal::Wait(inbox);
            let lasting = Lasting { session: SESSION, key: KEY, renewal, said: Vec::new(), timeout: TIMEOUT };
            let mut link = Link::lasting(near, lasting, None);
            write(&mut peer, &breach).await.expect("it is open");
            assert!(matches!(link.recv().await, Err(LinkError::Protocol(_))), "{breach:?}");
        }
    });
}
