//! A page as it is stored and as it is worked with: names and sizes packed once, states as two bits a file.

use super::super::PageCounts;
use super::{DIGEST_BYTES_MAX, NAME_BYTES_MAX, NewFile, PAGE_FILES_MAX, State};

/// Bytes of a page before it is compressed: every name as long as one may be, with its numbers.
const PACKED_BYTES_MAX: usize = PAGE_FILES_MAX * (NAME_BYTES_MAX + 16);
/// Bytes of a row of digests before it is compressed.
const DIGESTS_BYTES_MAX: usize = PAGE_FILES_MAX * (DIGEST_BYTES_MAX + 8);

/// Names and sizes of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    text: Vec<u8>,
    /// Where each name ends in `text`.
    ends: Vec<u32>,
    sizes: Vec<u64>,
}

impl Names {
    pub(super) fn new(files: &[NewFile]) -> Names {
        let mut names = Names::default();
        files.iter().for_each(|file| names.push(&file.name, file.size_bytes));
        names
    }

    fn push(&mut self, name: &[u8], size: u64) {
        self.text.extend(name);
        self.ends.push(u32::try_from(self.text.len()).expect("names of a page are bounded"));
        self.sizes.push(size);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn name(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin as usize..self.ends[number] as usize]
    }

    pub(super) fn size(&self, number: usize) -> u64 {
        self.sizes[number]
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
    }

    /// What it takes in memory.
    pub(super) fn memory(&self) -> usize {
        self.text.len() + self.ends.len() * 4 + self.sizes.len() * 8
    }

    /// Sizes first, then names: how much is shared with the one before, how much follows, what follows. Then LZ4.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.len() + self.len() * 8);
        self.sizes.iter().for_each(|size| put_number(&mut out, *size));
        let mut before: &[u8] = &[];
        for number in 0..self.len() {
            let name = self.name(number);
            let shared = before.iter().zip(name).take_while(|(a, b)| a == b).count();
            put_number(&mut out, shared as u64);
            put_number(&mut out, (name.len() - shared) as u64);
            out.extend(&name[shared..]);
            before = name;
        }
        lz4_flex::block::compress_prepend_size(&out)
    }

    /// `None` for what [`Names::pack`] does not give.
    pub(super) fn unpack(packed: &[u8], files: u32) -> Option<Names> {
        let files = usize::try_from(files).ok().filter(|files| *files <= PAGE_FILES_MAX)?;
        let bytes = unpack_bytes(packed, PACKED_BYTES_MAX)?;
        let mut rest = &bytes[..];
        let sizes = (0..files).map(|_| number(&mut rest)).collect::<Option<Vec<_>>>()?;
        let mut names = Names::default();
        let mut name = Vec::new();
        for size in sizes {
            let (shared, more) = (usize::try_from(number(&mut rest)?).ok()?, usize::try_from(number(&mut rest)?).ok()?);
            let (suffix, after) = rest.split_at_checked(more)?;
            if shared > name.len() || shared + more > NAME_BYTES_MAX {
                return None;
            }
            name.truncate(shared);
            name.extend(suffix);
            names.push(&name, size);
            rest = after;
        }
        rest.is_empty().then_some(names)
    }
}

/// States of the files of a page for one leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct States {
    bits: Vec<u8>,
    pub(super) counts: PageCounts,
}

impl States {
    /// All files open.
    pub(super) fn new(names: &Names) -> States {
        let counts = PageCounts { open: names.len() as u64, bytes: names.bytes(), ..PageCounts::default() };
        States { bits: vec![0; names.len().div_ceil(4)], counts }
    }

    /// `None` where bits and counts do not agree.
    pub(super) fn from_parts(bits: Vec<u8>, counts: PageCounts) -> Option<States> {
        let states = States { bits, counts };
        let files = usize::try_from(counts.files()).ok().filter(|files| *files <= PAGE_FILES_MAX)?;
        if states.bits.len() != files.div_ceil(4) {
            return None;
        }
        let mut found = PageCounts { bytes: counts.bytes, bytes_done: counts.bytes_done, ..PageCounts::default() };
        (0..files).for_each(|number| *count(&mut found, states.get(number)) += 1);
        (found == counts).then_some(states)
    }

    pub(super) fn bits(&self) -> &[u8] {
        &self.bits
    }

    pub(super) fn get(&self, number: usize) -> State {
        match self.bits[number / 4] >> (number % 4 * 2) & 3 {
            0 => State::Open,
            1 => State::Given,
            2 => State::Done,
            _ => State::Failed,
        }
    }

    /// Sets a state and what follows for the counts.
    pub(super) fn set(&mut self, number: usize, state: State, size: u64) {
        let old = self.get(number);
        if old == state {
            return;
        }
        *count(&mut self.counts, old) -= 1;
        *count(&mut self.counts, state) += 1;
        match (old, state) {
            (State::Done, _) => self.counts.bytes_done = self.counts.bytes_done.saturating_sub(size),
            (_, State::Done) => self.counts.bytes_done = self.counts.bytes_done.saturating_add(size),
            _ => {}
        }
        let (byte, shift) = (&mut self.bits[number / 4], number % 4 * 2);
        *byte = *byte & !(3 << shift) | (state as u8) << shift;
    }
}

fn count(counts: &mut PageCounts, state: State) -> &mut u64 {
    match state {
        State::Open => &mut counts.open,
        State::Given => &mut counts.given,
        State::Done => &mut counts.done,
        State::Failed => &mut counts.failed,
    }
}

/// Digests as they came together: number, length, bytes. Digests do not compress, but many rows have few numbers.
pub(super) fn pack_digests<'a>(digests: impl Iterator<Item = (u32, &'a [u8])>) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, digest) in digests {
        put_number(&mut out, number.into());
        put_number(&mut out, digest.len() as u64);
        out.extend(digest);
    }
    out
}

/// `None` for what [`pack_digests`] does not give.
pub(super) fn unpack_digests(packed: &[u8]) -> Option<Vec<(u32, Vec<u8>)>> {
    let mut rest = packed;
    let mut digests = Vec::new();
    while !rest.is_empty() && packed.len() <= DIGESTS_BYTES_MAX {
        let (at, length) = (u32::try_from(number(&mut rest)?).ok()?, usize::try_from(number(&mut rest)?).ok()?);
        let (digest, after) = rest.split_at_checked(length)?;
        digests.push((at, digest.to_vec()));
        rest = after;
    }
    rest.is_empty().then_some(digests)
}

fn unpack_bytes(packed: &[u8], most: usize) -> Option<Vec<u8>> {
    let (size, _) = packed.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*size) as usize <= most).then(|| lz4_flex::block::decompress_size_prepended(packed).ok())?
}

/// Seven bits a byte, the least first.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let part = u64::from(byte & 0x7f);
        value |= part << shift;
        if byte & 0x80 == 0 {
            return (part << shift >> shift == part).then_some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_come_back(files in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), any::<u64>()), 0..60)) {
            let files: Vec<NewFile> = files.into_iter().map(|(name, size_bytes)| NewFile { name, size_bytes }).collect();
            let names = Names::new(&files);
            let packed = names.pack();
            let back = Names::unpack(&packed, files.len() as u32).expect("it was packed");
            for (number, file) in files.iter().enumerate() {
                prop_assert_eq!((back.name(number), back.size(number)), (&file.name[..], file.size_bytes));
            }
            prop_assert_eq!(back, names);
            prop_assert_eq!(Names::unpack(&packed, files.len() as u32 + 1), None);
        }

        #[test]
        fn other_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), files in 0u32..20) {
            let _ = Names::unpack(&bytes, files);
            let _ = Names::unpack(&lz4_flex::block::compress_prepend_size(&bytes), files);
            let _ = unpack_digests(&bytes);
        }

        #[test]
        fn counts_follow_bits(changes in prop::collection::vec((0usize..8, 0u8..4), 0..60)) {
            let sizes = [1, 2, 3, u64::from(u32::MAX), 5, 6, 7, 8];
            let files = sizes.map(|size_bytes| NewFile { name: b"n".to_vec(), size_bytes });
            let mut states = States::new(&Names::new(&files));
            for (number, state) in changes {
                let state = [State::Open, State::Given, State::Done, State::Failed][usize::from(state)];
                states.set(number, state, sizes[number]);
                prop_assert_eq!(states.get(number), state);
            }
            let done: u64 = (0..8).filter(|n| states.get(*n) == State::Done).map(|n| sizes[n]).sum();
            prop_assert_eq!(states.counts.bytes_done, done);
            prop_assert_eq!(States::from_parts(states.bits().to_vec(), states.counts), Some(states.clone()));
            let wrong = PageCounts { open: states.counts.open + 1, ..states.counts };
            prop_assert_eq!(States::from_parts(states.bits, wrong), None);
        }
    }

    #[test]
    fn digests_come_back() {
        let digests: [(u32, &[u8]); 3] = [(0, b""), (9_999, &[7; 64]), (3, b"x")];
        let packed = pack_digests(digests.into_iter());
        let back = unpack_digests(&packed).expect("it was packed");
        assert_eq!(back.iter().map(|(n, d)| (*n, &d[..])).collect::<Vec<_>>(), digests);
        assert_eq!(unpack_digests(&packed[..packed.len() - 1]), None);
    }

    #[test]
    fn a_size_that_lies_is_refused_before_room_is_made() {
        let mut packed = lz4_flex::block::compress_prepend_size(b"abc");
        packed[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(unpack_bytes(&packed, PACKED_BYTES_MAX), None);
    }
}
