use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Mutex;

use proto::hello::StreamSecrets;
use proto::record::HEADER;

use super::*;
use crate::numa::Placement;

const STREAMS: u16 = 3;
const RECORD_BYTES: u64 = 4096;
const RECORDS: u64 = 30;
/// Longer than a thread sleeps at a gate, so that all streams have asked in vain before a record may pass.
const EACH: Duration = Duration::from_millis(3);

/// A set point that lets a record pass every now and then, as a low one does.
fn now_and_then() -> Refill {
    let passed = Mutex::new((Instant::now(), 0));
    Box::new(move |gate| {
        let (at, records) = &mut *passed.lock().unwrap();
        if *records < RECORDS && at.elapsed() >= EACH {
            (*at, *records) = (Instant::now(), *records + 1);
            gate.allow(Some(gate.taken() + RECORD_BYTES + HEADER as u64));
        }
    })
}

#[test]
fn what_a_set_point_lets_pass_goes_to_all_streams_in_turn() {
    let (events, _news) = mpsc::channel(64);
    let shared = Arc::new(Shared {
        ready: bounded(1).1,
        pool: Pool::new(1, 4096, Vec::new(), Placement::default()).unwrap(),
        test: Some(TestData::new(1 << 20)),
        gate: Gate::default(),
        refill: OnceLock::from(now_and_then()),
        stats: NetStats::default(),
        protection: Protection::Clear,
        events,
        finish: AtomicBool::new(false),
        only: AtomicU32::new(ANY),
    });
    shared.gate.allow(Some(0));
    shared.gate.fit(RECORD_BYTES as usize);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let thread = SendThread::start("in-turn", Arc::clone(&shared)).unwrap();
    let mut ends = Vec::new();
    for id in 0..STREAMS {
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        ends.push(listener.accept().unwrap().0);
        socket.set_nonblocking(true).unwrap();
        let secrets = StreamSecrets { forward: [1; 32], backward: [2; 32] };
        thread.add(Opened { id, socket: Arc::new(socket), secrets, connected: true, permit: None });
    }
    let until = Instant::now() + Duration::from_secs(60);
    while shared.gate.taken() < RECORDS * (RECORD_BYTES + HEADER as u64) {
        assert!(Instant::now() < until, "{} bytes have passed", shared.gate.taken());
        std::thread::sleep(EACH);
    }
    drop(thread);
    let sent = ends.iter_mut().map(|end| {
        let mut bytes = Vec::new();
        end.read_to_end(&mut bytes).unwrap();
        bytes.len() as u64 / (RECORD_BYTES + HEADER as u64)
    });
    let sent: Vec<u64> = sent.collect();
    // The first ones pass before all streams are there.
    let fair = RECORDS / u64::from(STREAMS);
    assert!(sent.iter().all(|records| records.abs_diff(fair) <= 3), "{sent:?}");
}
