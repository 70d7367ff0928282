//! Threads that receive, without a session.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::atomic::AtomicU64;

use proto::control::Begun;
use proto::hello::StreamSecrets;
use proto::record::{LAST, REST};

use super::*;
use crate::numa::Placement;

const FRAMES: usize = 64;

/// What threads share that take chunks of [`CHUNK`] bytes or test data, in the clear, and hold up none.
fn shared(pool: &Pool, chunks: crossbeam_channel::Sender<Frame>, events: mpsc::Sender<NetEvent>) -> Shared {
    Shared {
        pool: pool.clone(),
        chunks,
        batches: bounded(0).0,
        backlog: None,
        kept: Kept::new(pool),
        chunk_size: CHUNK,
        stats: NetStats::default(),
        protection: Protection::Clear,
        events,
    }
}

/// A slow disk has few chunks waiting for it, and who may receive no more is woken when one has left the queue.
#[test]
fn a_standing_queue_of_chunks_holds_up_chunks_and_nothing_else() {
    let waker = Waker::new().unwrap();
    let pool = Pool::new(FRAMES, CHUNK as usize, vec![waker.clone()], Placement::default()).unwrap();
    let (chunks, queue) = bounded(FRAMES);
    let (events, _news) = mpsc::channel(1);
    let backlog = Some(Backlog::new(Instant::now()));
    let shared = Shared { backlog, ..shared(&pool, chunks, events) };
    let deadline = Instant::now() + PATIENCE;
    while let Some(frame) = shared.frame(Kind::Chunk) {
        assert!(Instant::now() < deadline, "{} chunks wait", queue.len());
        // A pool that is empty is another reason to wait.
        if queue.len() < FRAMES / 2 {
            shared.chunks.send(frame).unwrap();
        } else {
            pool.give(frame);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(pool.free() >= FRAMES / 2, "there are frames");
    pool.give(shared.frame(Kind::Small).expect("small files are not held up"));
    let epoll = Epoll::new().unwrap();
    epoll.add(&waker, 1, Interest::READ).unwrap();
    let mut woken = Vec::with_capacity(4);
    waker.drain();
    assert!(shared.frame(Kind::Chunk).is_none());
    let _taken = queue.recv().unwrap();
    pool.moved();
    epoll.wait(&mut woken, Some(Duration::ZERO)).unwrap();
    assert!(!woken.is_empty(), "nobody was woken");
}

const CHUNK: u32 = 8192;
/// How long something is waited for that is due at once.
const PATIENCE: Duration = Duration::from_secs(20);
const SECRETS: StreamSecrets = StreamSecrets { forward: [1; 32], backward: [2; 32] };

/// The sending end of a stream.
struct Sender {
    socket: TcpStream,
    sealer: Sealer,
}

impl Sender {
    /// A new stream of this number that a thread receives.
    fn new(thread: &RecvThread, id: u16) -> Sender {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let socket_there = Arc::new(accepted);
        thread.add(Opened { id, socket: socket_there, secrets: SECRETS, connected: false, permit: None });
        Sender { socket, sealer: Sealer::new(Protection::Clear, &SECRETS.forward) }
    }

    /// Sends a record of a chunk of file 3, or only the first `cut` bytes of it.
    fn send(&mut self, parcel: u64, flags: u8, offset: u64, payload: &[u8], cut: usize) {
        let len = payload.len() as u32;
        self.send_record(
            Header { kind: Kind::Chunk, flags, generation: 0, len, parcel, file: 3, offset },
            payload,
            cut,
        );
    }

    /// Sends a record, or only the first `cut` bytes of it.
    fn send_record(&mut self, header: Header, payload: &[u8], cut: usize) {
        let header = header.encode();
        let check = self.sealer.seal(&header, payload, &mut []);
        let record = [&header[..], &check, payload].concat();
        self.socket.write_all(&record[..cut.min(record.len())]).unwrap();
    }
}

/// The next news of a thread.
fn next(news: &mut mpsc::Receiver<NetEvent>) -> NetEvent {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match news.try_recv() {
            Ok(event) => return event,
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("no news: {error}"),
        }
    }
}

/// What came of a chunk before its stream was given up waits for the rest, over another stream.
#[test]
fn a_chunk_is_completed_over_another_stream() {
    let waker = Waker::new().unwrap();
    let pool = Pool::new(FRAMES, CHUNK as usize, vec![waker.clone()], Placement::default()).unwrap();
    let (chunks, queue) = bounded(FRAMES);
    let (events, mut news) = mpsc::channel(8);
    let shared = shared(&pool, chunks, events);
    let thread = RecvThread::start("kept", Arc::new(shared), waker).unwrap();
    let content: Vec<u8> = (0..CHUNK).map(|at| (at * 7 % 251) as u8).collect();
    let begin = u64::from(CHUNK);

    let mut first = Sender::new(&thread, 0);
    first.send(7, 0, begin, &content[..1000], usize::MAX);
    first.send(7, 0, begin + 1000, &content[1000..2000], usize::MAX);
    // Of what has come in part nothing is known to be sound.
    first.send(7, 0, begin + 2000, &content[2000..3000], 500);
    thread.abandon(0);
    let NetEvent::Closed { id: 0, arrived, why } = next(&mut news) else { panic!("it is not closed") };
    let begun = Begun { parcel: 7, file: 3, offset: begin + 2000 };
    assert_eq!((arrived, why.is_some()), (Arrived { whole: Vec::new(), begun: Some(begun) }, true));

    let mut second = Sender::new(&thread, 1);
    second.send(7, REST, begun.offset, &[], usize::MAX);
    second.send(7, LAST, begun.offset, &content[2000..], usize::MAX);
    let frame = queue.recv_timeout(PATIENCE).expect("it is whole");
    let whole = Part { file: 3, generation: 0, offset: begin, start: 0, len: CHUNK, file_end: false };
    assert_eq!((frame.parcel, &frame.parts[..], &frame.buf[..]), (7, &[whole][..], &content[..]));
    pool.give(frame);

    // A rest of which nothing is here, or something else, must not pass for a whole chunk.
    second.send(8, REST, begun.offset, &[], usize::MAX);
    second.send(8, LAST, begun.offset, &content[2000..], usize::MAX);
    assert!(matches!(next(&mut news), NetEvent::Corrupt { parcel: 8, is_damaged: false }));
    // What has passed is not written over, whether all of the record comes or not.
    let mut open = Vec::new();
    for (id, cut) in [(2, usize::MAX), (3, 500)] {
        let mut third = Sender::new(&thread, id);
        third.send(10, 0, begin, &content[..1000], usize::MAX);
        third.send(10, 0, begin + 999, &[0xEE; 1000], cut);
        let NetEvent::Closed { arrived, why, .. } = next(&mut news) else { panic!("it is not closed") };
        assert_eq!(why.as_deref(), Some("a parcel is out of order"));
        let begun = Begun { parcel: 10, file: 3, offset: begin + 1000 };
        assert_eq!(arrived.begun, Some(begun), "what has passed is sound");
        let mut fourth = Sender::new(&thread, id + 10);
        fourth.send(10, REST, begun.offset, &[], usize::MAX);
        fourth.send(10, LAST, begun.offset, &content[1000..], usize::MAX);
        let frame = queue.recv_timeout(PATIENCE).expect("it is whole");
        assert_eq!(&frame.buf[..], &content[..]);
        pool.give(frame);
        open.push(fourth);
    }
    // A place within a parcel is none.
    second.send(9, 0, begin, &content[..1000], usize::MAX);
    second.send(9, REST, begin + 1000, &[], usize::MAX);
    let NetEvent::Closed { id: 1, arrived, .. } = next(&mut news) else { panic!("it is not closed") };
    assert_eq!(arrived.whole, [7]);
    drop(thread);
    assert!(queue.try_recv().is_err());
}

/// A test counts what has arrived of a record of which the rest is still to come, and not if it never comes.
#[test]
fn the_begin_of_a_record_of_a_test_counts_until_its_stream_ends_without_the_rest() {
    let waker = Waker::new().unwrap();
    let pool = Pool::new(1, CHUNK as usize, vec![waker.clone()], Placement::default()).unwrap();
    let (events, mut news) = mpsc::channel(8);
    let shared = Arc::new(shared(&pool, bounded(0).0, events));
    let thread = RecvThread::start("begun", shared.clone(), waker).unwrap();
    let mut sender = Sender::new(&thread, 0);
    let header = Header { kind: Kind::Memory, flags: 0, generation: 0, len: CHUNK, parcel: 0, file: 0, offset: 0 };
    let content = [7; CHUNK as usize];
    sender.send_record(header, &content, usize::MAX);
    sender.send_record(header, &content, HEADER + 1000);
    let counts = || {
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        (load(&shared.stats.test_bytes), load(&shared.stats.bytes))
    };
    let deadline = Instant::now() + PATIENCE;
    while counts() != (u64::from(CHUNK) + 1000, u64::from(CHUNK)) {
        assert!(Instant::now() < deadline, "{:?}", counts());
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(sender);
    assert!(matches!(next(&mut news), NetEvent::Closed { id: 0, why: Some(_), .. }));
    assert_eq!(counts(), (u64::from(CHUNK), u64::from(CHUNK)));
}
