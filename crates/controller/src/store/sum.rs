//! Checksums of rows: xxh3, against disks and slips, not against people.

use xxhash_rust::xxh3::Xxh3;

use super::rows::{DigestsRow, EventRow, FailedRow, NamesRow, SnapshotRow, StatesRow};

/// A row that knows what its checksum should be.
pub(super) trait Summed {
    /// The checksum of all other fields.
    fn expected(&self) -> u64;
    /// The checksum that it has.
    fn sum(&mut self) -> &mut u64;

    /// Sets the checksum.
    fn sealed(mut self) -> Self
    where
        Self: Sized,
    {
        *self.sum() = self.expected();
        self
    }
}

/// Numbers and bytes in turn; the bytes come last, so where they begin is no question. `kind` keeps rows of different tables apart.
fn sum(kind: u64, numbers: &[u64], bytes: &[u8]) -> u64 {
    let mut state = Xxh3::with_seed(kind);
    for number in numbers {
        state.update(&number.to_le_bytes());
    }
    state.update(bytes);
    state.digest()
}

macro_rules! summed {
    ($row:ty, $kind:literal, |$this:ident| [$($number:expr),*], $bytes:expr) => {
        impl Summed for $row {
            fn expected(&self) -> u64 {
                let $this = self;
                sum($kind, &[$($number),*], $bytes)
            }

            fn sum(&mut self) -> &mut u64 {
                &mut self.sum
            }
        }
    };
}

summed!(EventRow, 1, |r| [r.number, r.at_ms], &r.bytes);
summed!(SnapshotRow, 2, |r| [r.number], &r.bytes);
summed!(NamesRow, 3, |r| [r.transfer, r.page.into(), r.files.into()], &r.data);
summed!(
    StatesRow,
    4,
    |r| [
        r.page.transfer,
        r.page.leg.into(),
        r.page.page.into(),
        r.counts.open,
        r.counts.given,
        r.counts.done,
        r.counts.failed,
        r.counts.bytes,
        r.counts.bytes_done
    ],
    &r.bits
);
summed!(FailedRow, 5, |r| [r.page.transfer, r.page.leg.into(), r.page.page.into(), r.number.into()], r.text.as_bytes());
summed!(DigestsRow, 6, |r| [r.page.transfer, r.page.leg.into(), r.page.page.into(), r.seq.into()], &r.data);
