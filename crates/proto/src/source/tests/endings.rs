//! Streams that end: what they carried is sent again, as far as it did not arrive.

use super::*;

/// A parcel that is lost with each stream that it is sent on is given up, and what went beside it is not.
#[test]
fn losses_are_bounded() {
    let mut source = announced([file(20), file(20)]);
    source.handle_message(ToSource::Wants(vec![(0, all()), (1, all())])).unwrap();
    let mut sent = 0;
    for stream in 0..1000 {
        while let Some(Job::Chunk { parcel, item, .. }) = job(&mut source) {
            assert!(source.handle_read(parcel, item, Read::Whole));
            if item.index == 1 {
                source.handle_sent(parcel, 9999);
                source.handle_message(ToSource::Landed(vec![parcel])).unwrap();
            } else {
                source.handle_sent(parcel, stream);
                sent += 1;
            }
        }
        source.handle_stream_ended(stream, &Arrived::default());
    }
    assert_eq!(sent % (1 + usize::from(LOSSES_PER_PARCEL_MAX)), 0);
    let ends: Vec<_> = std::iter::from_fn(|| source.poll_message())
        .filter_map(|message| match message {
            ToDestination::FileEnd { index, end } => Some((index, end)),
            _ => None,
        })
        .collect();
    let given_up: Vec<_> = ends.iter().filter(|(_, end)| !matches!(end, FileEnd::Whole { .. })).collect();
    assert!(matches!(&given_up[..], [(0, FileEnd::Failed { .. })]), "{ends:?}");
}

/// What has landed is read again if its stream dies before the source hears of it; what that finds is of no interest.
#[test]
fn what_has_landed_is_not_sent_again() {
    for size in [8, 16] {
        let mut source = announced([file(size)]);
        source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
        let jobs: Vec<Job> = std::iter::from_fn(|| job(&mut source)).collect();
        for job in &jobs {
            let (parcel, item) = only_item(job);
            assert!(source.handle_read(parcel, item, Read::Whole));
            source.handle_sent(parcel, 1);
        }
        source.handle_stream_ended(1, &Arrived::default());
        let again: Vec<Job> = std::iter::from_fn(|| job(&mut source)).collect();
        assert_eq!(again, jobs);
        source.handle_message(ToSource::Landed(again.iter().map(|job| only_item(job).0).collect())).unwrap();
        while source.poll_message().is_some() {}
        for job in &again {
            let (parcel, item) = only_item(job);
            assert!(!source.handle_read(parcel, item, Read::Changed(Box::new(file(30)))));
        }
        assert_eq!((source.poll_message(), job(&mut source), source.unlanded()), (None, None, 0));
    }
}

/// Of what a stream carried, only what did not arrive is sent again when it ends.
#[test]
fn what_has_arrived_is_not_sent_again() {
    let mut source = announced([file(40)]);
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let jobs: Vec<Job> = std::iter::from_fn(|| job(&mut source)).collect();
    for (n, job) in jobs.iter().enumerate() {
        let (parcel, item) = only_item(job);
        assert!(source.handle_read(parcel, item, Read::Whole));
        source.handle_sent(parcel, if n == 4 { 2 } else { 1 });
    }
    let parcels: Vec<u64> = jobs.iter().map(|job| only_item(job).0).collect();
    // The word of a stream counts for what it carried, and once.
    let arrived = Arrived { whole: vec![parcels[0], parcels[2], parcels[4], 999], begun: None };
    source.handle_stream_ended(1, &arrived);
    let again: Vec<Job> = std::iter::from_fn(|| job(&mut source)).collect();
    assert_eq!(again, [jobs[1].clone(), jobs[3].clone()]);
    source.handle_stream_ended(1, &Arrived::default());
    assert_eq!(job(&mut source), None);
    source.handle_stream_ended(2, &Arrived::default());
    assert_eq!(job(&mut source), Some(jobs[4].clone()));
    assert_eq!(source.unlanded(), jobs.len());
}

/// Of the parcel that was under way only the rest is sent, as often as its stream ends; all of it when nothing is said of
/// it, and when what came is damaged.
#[test]
fn what_is_kept_of_a_chunk_is_not_sent_again() {
    let mut source = announced([file(11)]);
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let jobs: Vec<Job> = std::iter::from_fn(|| job(&mut source)).collect();
    let (parcel, chunk) = only_item(&jobs[0]);
    let (last, _) = only_item(&jobs[1]);
    let begun = |parcel, offset| Begun { parcel, file: 0, offset };
    let mut read = chunk;
    let mut lost = |source: &mut Source, begun| {
        source.handle_read(parcel, read, Read::Whole);
        source.handle_sent(parcel, 1);
        source.handle_stream_ended(1, &Arrived { whole: Vec::new(), begun });
        let Some(Job::Chunk { item, after, .. }) = job(source) else { panic!("nothing is sent again") };
        read = item;
        (item.offset, item.len, after)
    };
    for offset in [1, 3, 7] {
        let place = Some(begun(parcel, offset));
        assert_eq!(lost(&mut source, place), (offset, CHUNK - offset as u32, place));
    }
    // Of nothing, all, and another parcel nothing is kept; nor beyond the end, or in another file.
    let other = Begun { file: 1, ..begun(parcel, 3) };
    for none in [None, Some(begun(parcel, 0)), Some(begun(parcel, 8)), Some(begun(last, 10)), Some(other)] {
        assert_eq!(lost(&mut source, none), (0, CHUNK, None), "{none:?}");
    }
    let place = Some(begun(parcel, 5));
    assert_eq!(lost(&mut source, place), (5, 3, place));
    source.handle_message(ToSource::Repair(parcel)).unwrap();
    assert_eq!(job(&mut source), Some(jobs[0].clone()));
}

/// Of a batch whole files are kept. When its rest is not sent, for they cannot be read, all that is kept is.
#[test]
fn what_is_kept_of_a_batch_is_completed_or_sent_again() {
    let mut source = announced([file(1), file(2), file(3)]);
    source.handle_message(ToSource::Wants((0..3).map(|index| (index, all())).collect())).unwrap();
    source.handle_scan_end();
    let Some(Job::Batch { parcel, items, .. }) = job(&mut source) else { panic!("no batch") };
    assert_eq!(items.len(), 3);
    items.iter().for_each(|item| assert!(source.handle_read(parcel, *item, Read::Whole)));
    source.handle_sent(parcel, 1);
    let begun = Some(Begun { parcel, file: 1, offset: 0 });
    source.handle_stream_ended(1, &Arrived { whole: Vec::new(), begun });
    assert_eq!(job(&mut source), Some(Job::Batch { parcel, items: items[2..].to_vec(), after: begun }));
    assert!(!source.handle_read(parcel, items[2], Read::Failed("no".into())));
    assert_eq!(job(&mut source), Some(Job::Batch { parcel, items: items[..2].to_vec(), after: None }));
}

/// What is kept ends with a file that is sent no more: the place that the destination knows is none any more.
#[test]
fn a_batch_whose_last_kept_file_is_given_up_is_sent_again() {
    for (given_up, after) in [(0, true), (1, false)] {
        let mut source = announced([file(1), file(2), file(3)]);
        source.handle_message(ToSource::Wants((0..3).map(|index| (index, all())).collect())).unwrap();
        source.handle_scan_end();
        let Some(Job::Batch { parcel, items, .. }) = job(&mut source) else { panic!("no batch") };
        items.iter().for_each(|item| assert!(source.handle_read(parcel, *item, Read::Whole)));
        source.handle_sent(parcel, 1);
        let begun = Begun { parcel, file: 1, offset: 0 };
        source.handle_stream_ended(1, &Arrived { whole: Vec::new(), begun: Some(begun) });
        source.fail(given_up, "no".into());
        let left = items.iter().filter(|item| item.index != given_up && (!after || item.index == 2)).copied().collect();
        assert_eq!(job(&mut source), Some(Job::Batch { parcel, items: left, after: after.then_some(begun) }));
    }
}

/// What was read from a pipe is kept by the reader, as whole chunks.
#[test]
fn of_a_pipe_whole_chunks_are_sent_again() {
    let mut source = announced([Entry { kind: EntryKind::Stream, ..file(0) }]);
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let first = job(&mut source).unwrap();
    let (parcel, item) = only_item(&first);
    source.handle_read(parcel, item, Read::Whole);
    source.handle_sent(parcel, 1);
    let begun = Some(Begun { parcel, file: 0, offset: 3 });
    source.handle_stream_ended(1, &Arrived { whole: Vec::new(), begun });
    assert_eq!(job(&mut source), Some(first));
}
