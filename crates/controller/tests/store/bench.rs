//! Numbers: `cargo test -p controller --test store --release -- --ignored bench --nocapture --test-threads=1`.

use std::time::{Duration, Instant};

use controller::store::{FileLedger, NewPage, Order, Outcome, Settlement};

use super::{World, id, new_page};

fn per_second(count: u64, took: Duration) -> u64 {
    (count as f64 / took.as_secs_f64()) as u64
}

#[test]
#[ignore = "measures how fast the store is, for whoever changes it: a timed test is no test"]
fn bench_appends() {
    let world = World::sqlite();
    let mut log = world.log();
    for (together, turns) in [(1_u64, 500_u64), (16, 500), (256, 100)] {
        let began = Instant::now();
        for _ in 0..turns {
            log.append(&vec![(1, vec![7; 200]); together as usize]).unwrap();
        }
        println!("{together:3} in a turn: {} durable events/s", per_second(together * turns, began.elapsed()));
    }
}

#[test]
#[ignore = "measures how fast the store is, for whoever changes it: a timed test is no test"]
fn bench_files() {
    const FILES: u32 = 1_000_000;
    for size in [10_000u32, 200] {
        let mut world = World::sqlite();
        let mut files = world.files();
        let page = |number: u32| -> NewPage { new_page(u64::from(number % 50), number / 50, &[0], size) };
        let (mut took, mut worst) = (Duration::ZERO, Duration::ZERO);
        for number in 0..FILES / size {
            let page = page(number);
            let began = Instant::now();
            files.put(&[page]).unwrap();
            worst = worst.max(began.elapsed());
            took += began.elapsed();
        }
        println!("put, {size} files a request: {} files/s, slowest {worst:?}", per_second(FILES.into(), took));
        println!("  on disk: {} MB", files.reader().bytes().unwrap() / 1_000_000);
        drop(files);
        let began = Instant::now();
        world.again();
        let mut files = world.files();
        let total: u64 = (0..50).map(|transfer| files.reader().total(transfer, 0).unwrap().1.open).sum();
        println!("  open, with counts of all {total} files: {:?}", began.elapsed());
        let began = Instant::now();
        for number in 0..FILES / size {
            let taken = files.take(id(u64::from(number % 50), 0, number / 50), size as usize, Order::Largest).unwrap();
            assert_eq!(taken.len(), size as usize);
        }
        println!("  take: {} files/s", per_second(FILES.into(), began.elapsed()));
        settle(&mut files, size, FILES / 2, None);
        settle(&mut files, size, FILES / 4, Some(32));
        println!(
            "  on disk: {} MB, cached {} MB",
            files.reader().bytes().unwrap() / 1_000_000,
            files.reader().cached_bytes() / 1_000_000
        );
    }
}

/// As completions come: 2,000 at once, of ten pages.
fn settle(files: &mut FileLedger, size: u32, count: u32, digest: Option<usize>) {
    let (mut number, mut worst) = (if digest.is_some() { 700_000 } else { 0 }, Duration::ZERO);
    let end = number + count;
    let (began, first) = (Instant::now(), number);
    while number < end {
        let mut batch: Vec<Settlement> = Vec::new();
        for _ in 0..10 {
            // Of the page the file is in, the next 200.
            let (page, within) = (number / size, number % size);
            let outcome = Outcome::Done { digest: digest.map(|bytes| vec![number as u8; bytes]), size_bytes: None };
            let outcomes = (within..(within + 200).min(size)).map(|file| (file, outcome.clone())).collect();
            batch.push(Settlement { page: id(u64::from(page % 50), 0, page / 50), outcomes });
            number += 200;
        }
        let began = Instant::now();
        files.settle(&batch).unwrap();
        worst = worst.max(began.elapsed());
    }
    let rate = per_second(u64::from(number - first), began.elapsed());
    println!("  settle, 2,000 a batch, digests {digest:?}: {rate} files/s, slowest {worst:?}");
}
