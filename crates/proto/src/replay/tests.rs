use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// One end: what it has sent, what is on its way to the other, and what it took.
#[derive(Default)]
struct End {
    out: SendBuffer,
    inbox: ReceiveBuffer<Vec<u8>>,
    taken: Vec<u8>,
    wire: VecDeque<Wire>,
    pushed: u8,
}

enum Wire {
    Frame(Vec<u8>),
    Received(u64),
}

impl End {
    fn push(&mut self) {
        self.out.push(vec![self.pushed]);
        self.pushed += 1;
    }

    fn write(&mut self) -> bool {
        let frame = self.out.poll_frame().map(<[u8]>::to_vec);
        frame.map(|frame| self.wire.push_back(Wire::Frame(frame))).is_some()
    }

    fn take(&mut self) -> bool {
        self.inbox.poll_message().map(|message| self.taken.extend(message)).is_some()
    }

    fn tell(&mut self) {
        let received = self.inbox.tell();
        self.wire.push_back(Wire::Received(received));
    }
}

/// One thing arrives at `to`. False if nothing was on its way.
fn arrive(from: &mut End, to: &mut End) -> bool {
    match from.wire.pop_front() {
        Some(Wire::Frame(frame)) => to.inbox.handle_message(frame, 1).expect("within its bound"),
        Some(Wire::Received(received)) => to.out.handle_received(received).expect("it was sent"),
        None => return false,
    }
    true
}

/// All that is on its way is lost; both ends begin again on another connection. With `heard` the answer of the accepting
/// end `b` arrives too; without it only `b` believes in the connection.
fn cut(a: &mut End, b: &mut End, heard: bool) {
    a.wire.clear();
    b.wire.clear();
    let theirs = b.inbox.detach();
    b.out.handle_attached(a.inbox.detach()).expect("it was sent");
    if heard {
        a.out.handle_attached(theirs).expect("it was sent");
    }
}

fn settle(a: &mut End, b: &mut End) {
    loop {
        let mut busy = false;
        for _ in 0..2 {
            busy |= a.write() | b.write() | a.take() | b.take();
            busy |= arrive(a, b);
            busy |= arrive(b, a);
        }
        if !busy {
            break;
        }
    }
    let sequence = |n: u8| (0..n).collect::<Vec<u8>>();
    assert_eq!((&a.taken, &b.taken), (&sequence(b.pushed), &sequence(a.pushed)));
    a.tell();
    b.tell();
    while arrive(a, b) | arrive(b, a) {}
    assert!(a.out.is_empty() && b.out.is_empty() && a.out.is_written());
}

#[test]
fn a_cut_at_every_frame_loses_none_and_repeats_none() {
    const FRAMES: u8 = 6;
    for written in 0..=FRAMES {
        for arrived in 0..=written {
            for taken in 0..=arrived {
                for told in [false, true] {
                    let (mut a, mut b) = (End::default(), End::default());
                    (0..FRAMES).for_each(|_| a.push());
                    (0..written).for_each(|_| assert!(a.write()));
                    (0..arrived).for_each(|_| assert!(arrive(&mut a, &mut b)));
                    (0..taken).for_each(|_| assert!(b.take()));
                    if told {
                        b.tell();
                        arrive(&mut b, &mut a);
                    }
                    cut(&mut a, &mut b, true);
                    let again = usize::from(FRAMES - taken);
                    assert_eq!(std::iter::from_fn(|| a.write().then_some(())).count(), again);
                    settle(&mut a, &mut b);
                }
            }
        }
    }
}

#[test]
fn what_is_not_acknowledged_is_bounded_at_both_ends() {
    const LARGE: usize = 1 << 20;
    let (mut out, mut inbox) = (SendBuffer::default(), ReceiveBuffer::default());
    let mut frames = 0;
    while out.has_room() {
        out.push(vec![0; LARGE]);
        frames += 1;
    }
    assert_eq!(frames, UNACKNOWLEDGED_BYTES_MAX / LARGE);
    while let Some(frame) = out.poll_frame() {
        inbox.handle_message((), frame.len()).expect("the sender kept to its bound");
    }
    assert_eq!(inbox.handle_message((), 1), Err(ReplayError::Overrun));
    assert!(!inbox.is_due() && !inbox.is_untold(), "nothing is acknowledged that nobody took");
    assert!(inbox.poll_message().is_some());
    assert!(inbox.is_due());
    out.handle_received(inbox.tell()).expect("it was sent");
    assert!(out.has_room() && !inbox.is_due());
}

#[test]
fn what_was_not_sent_is_not_acknowledged() {
    let mut out = SendBuffer::default();
    (0..3).for_each(|n| out.push(vec![n]));
    let wrong = |received, first, sent| Err(ReplayError::Acknowledged { received, first, sent });
    assert_eq!(out.handle_received(1), wrong(1, 0, 0));
    (0..2).for_each(|_| assert!(out.poll_frame().is_some()));
    assert_eq!(out.handle_received(u64::MAX), wrong(u64::MAX, 0, 2));
    assert_eq!(out.handle_received(2), Ok(()));
    assert_eq!(out.handle_attached(1), wrong(1, 2, 2), "it had them");
    assert_eq!(out.handle_attached(2), Ok(()));
    assert_eq!(out.poll_frame(), Some(&[2][..]));
}

proptest! {
    #[test]
    fn any_sequence_of_cuts_delivers_every_frame_once_and_in_order(steps in prop::collection::vec(0u8..12, 0..400)) {
        let (mut a, mut b) = (End::default(), End::default());
        for step in steps {
            match step {
                0 if a.pushed < 100 => a.push(),
                1 if b.pushed < 100 => b.push(),
                2 => _ = a.write(),
                3 => _ = b.write(),
                4 => _ = a.take(),
                5 => _ = b.take(),
                6 => _ = arrive(&mut a, &mut b),
                7 => _ = arrive(&mut b, &mut a),
                8 => a.tell(),
                9 => b.tell(),
                10 => cut(&mut a, &mut b, true),
                11 => {
                    // The answer is lost, so the connecting end comes again.
                    cut(&mut a, &mut b, false);
                    let _ = b.write();
                    cut(&mut a, &mut b, true);
                }
                _ => {}
            }
        }
        settle(&mut a, &mut b);
    }
}
