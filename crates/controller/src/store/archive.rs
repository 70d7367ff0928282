//! The archive: samples of series, finer where they are young, and the last plannings. It may be lost: nothing is decided by it.
//!
//! Of each series the last [`RING_SAMPLES`] samples are in memory (one a second: 10 minutes). Means and greatest values of 10 s are
//! kept on disk for 7 days and those of 5 min for a year, less if that would be more than [`ARCHIVE_BYTES_MAX`].
//! Values are `f64`: whole numbers are exact up to 2⁵³. There is no clock here: time is what samples carry.

mod series;

use std::collections::BTreeMap;

use series::{Bucket, Series};

use super::Store;
use super::error::{Result, StoreError};
use super::rows::{SampleRow, SampleRows};

/// Samples of a series in memory.
pub const RING_SAMPLES: usize = 600;
/// Series. Each takes up to 10 kB of memory.
pub const SERIES_MAX: usize = 4_096;
/// Bytes of a series' name.
pub const SERIES_NAME_MAX: usize = 256;
/// Points of one answer.
pub const POINTS_MAX: u32 = 10_000;
/// Bytes on disk; when it is more the oldest points go.
pub const ARCHIVE_BYTES_MAX: u64 = 1 << 30;
/// Points that wait to be written while the disk refuses; then the oldest are dropped.
pub const PENDING_MAX: usize = 100_000;

/// Plannings that are kept; the oldest go first.
pub const PLANNINGS_MAX: u32 = 64;

const FINE_S: u32 = 10;
const COARSE_S: u32 = 300;
/// Lengths of points on disk, and for how long they are kept, s.
const GRAINS: [(u32, i64); 2] = [(FINE_S, 7 * 86_400), (COARSE_S, 366 * 86_400)];
/// Points are written so often, by the time of samples, s.
const FLUSH_S: i64 = 60;
/// Old points are removed so often, s.
const EXPIRE_S: i64 = 600;
/// When the archive is too big, so much of the time that points cover goes at once.
const CUT_SHARE: i64 = 10;
/// Cuts at one time.
const CUTS_MAX: u32 = 5;
/// A sample so much older than the last of its series means that the clock was set back, ms.
const SET_BACK_MS: u64 = 600_000;
/// Points read from disk for one answer: 7 days of 10 s, with room.
const READ_MAX: u32 = 200_000;

/// A point of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Begin, ms since 1970.
    pub at_ms: u64,
    /// Mean of the samples in it.
    pub mean: f64,
    /// The greatest of them.
    pub max: f64,
    /// How many samples.
    pub count: u32,
}

/// Points of a series in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Length of a point, ms.
    pub grain_ms: u64,
    /// In order; where no samples came there is none.
    pub points: Vec<Point>,
}

/// The archive of a store.
pub struct Archive {
    rows: Box<dyn SampleRows>,
    names: BTreeMap<String, u32>,
    series: Vec<Series>,
    pending: Vec<SampleRow>,
    dropped: u64,
    flushed_s: i64,
    expired_s: i64,
    bytes_max: u64,
}

impl Archive {
    /// Opens the archive of a store.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub fn open(store: &dyn Store) -> Result<Archive> {
        let mut rows = store.samples()?;
        let listed = rows.series()?;
        let mut archive = Archive {
            names: BTreeMap::new(),
            series: Vec::new(),
            pending: Vec::new(),
            dropped: 0,
            flushed_s: i64::MIN,
            expired_s: i64::MIN,
            bytes_max: ARCHIVE_BYTES_MAX,
            rows,
        };
        for (number, name) in listed {
            // Numbers are places: they are given in turn and never taken back.
            if number as usize != archive.series.len() || archive.series.len() == SERIES_MAX {
                return Err(
                    archive.refused(&name, "the list of series has gaps: move the archive away, it may be lost")
                );
            }
            archive.series.push(Series::default());
            archive.names.insert(name, number);
        }
        Ok(archive)
    }

    /// Another bound of the bytes on disk.
    pub fn limit_bytes(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Takes samples of one moment. A value that is no number is left out, and so is one that is older than the last of its series.
    /// Once a minute, by the time of samples, points are written.
    ///
    /// # Errors
    /// [`StoreError::Series`] for a series that cannot be kept; the others are taken. When the database refuses; the samples are taken
    /// and written later.
    pub fn push(&mut self, at_ms: u64, samples: &[(&str, f64)]) -> Result<()> {
        let mut refused = Ok(());
        for (name, value) in samples.iter().filter(|(_, value)| value.is_finite()) {
            match self.number(name) {
                Ok(number) => self.take(number, at_ms, *value),
                Err(error) => refused = Err(error),
            }
        }
        let at_s = seconds(at_ms);
        if self.flushed_s == i64::MIN || at_s < self.flushed_s {
            (self.flushed_s, self.expired_s) = (at_s, at_s);
        }
        if at_s - self.flushed_s >= FLUSH_S {
            self.flushed_s = at_s;
            self.write()?;
            if at_s - self.expired_s >= EXPIRE_S {
                self.expired_s = at_s;
                self.expire(at_s)?;
            }
        }
        refused
    }

    fn number(&mut self, name: &str) -> Result<u32> {
        if let Some(number) = self.names.get(name) {
            return Ok(*number);
        }
        if name.len() > SERIES_NAME_MAX {
            return Err(self.refused(name, "its name is longer than 256 bytes"));
        }
        if self.series.len() >= SERIES_MAX {
            return Err(self.refused(name, "there are 4,096 others already"));
        }
        let number = u32::try_from(self.series.len()).expect("series are bounded");
        self.rows.add_series(number, name)?;
        self.names.insert(name.to_owned(), number);
        self.series.push(Series::default());
        Ok(number)
    }

    fn take(&mut self, number: u32, at_ms: u64, value: f64) {
        let series = &mut self.series[number as usize];
        let closed = series.take(at_ms, value);
        let rows = closed.into_iter().flatten().map(|(grain_s, bucket)| row(number, grain_s, &bucket));
        self.pending.extend(rows);
        if self.pending.len() > PENDING_MAX {
            let most = self.pending.len() - PENDING_MAX;
            self.pending.drain(..most);
            self.dropped += most as u64;
        }
    }

    /// Whether there is such a series.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The last sample of a series: time and value.
    pub fn last(&self, name: &str) -> Option<(u64, f64)> {
        self.series[*self.names.get(name)? as usize].last()
    }

    /// Names of all series, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Points that were dropped because the disk refused them for too long.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Points that wait to be written.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Points of a series in `[from_ms, to_ms)`, at most `most` or [`POINTS_MAX`]: as fine as what is kept of the whole window, and
    /// neighbours put together where there are more. Of a series that is not there, none.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn query(&mut self, name: &str, from_ms: u64, to_ms: u64, most: u32) -> Result<Answer> {
        let most = u64::from(most.clamp(1, POINTS_MAX));
        let Some(number) = self.names.get(name).copied() else { return Ok(Answer::default()) };
        let Some((last_ms, _)) = self.series[number as usize].last().or(self.last_on_disk(number)?) else {
            return Ok(Answer::default());
        };
        let to_ms = to_ms.min(last_ms.saturating_add(1_000 * u64::from(COARSE_S)));
        let span_ms = to_ms.saturating_sub(from_ms);
        let grain_s = self.grain(number, from_ms, last_ms, span_ms.div_ceil(most));
        let grain_ms = 1_000 * u64::from(grain_s);
        let together = span_ms.div_ceil(grain_ms).div_ceil(most).max(1);
        let points = match grain_s {
            1 => self.series[number as usize].ring(from_ms, to_ms),
            _ => self.stored(number, grain_s, from_ms, to_ms)?,
        };
        let grain_ms = grain_ms * together;
        Ok(Answer { grain_ms, points: merged(points, grain_ms, most as usize) })
    }

    /// The coarsest of what covers the window that is still as fine as asked for; else the finest that covers it.
    fn grain(&self, number: u32, from_ms: u64, last_ms: u64, wanted_ms: u64) -> u32 {
        let age_s = seconds(last_ms) - seconds(from_ms);
        let in_ring = self.series[number as usize].ring_covers(from_ms).then_some(1);
        let on_disk = GRAINS.iter().filter(|(_, kept_s)| age_s <= *kept_s).map(|(grain_s, _)| *grain_s);
        let covering: Vec<u32> = in_ring.into_iter().chain(on_disk).collect();
        let fine_enough = covering.iter().rev().find(|grain_s| u64::from(**grain_s) * 1_000 <= wanted_ms);
        *fine_enough.or(covering.first()).unwrap_or(&COARSE_S)
    }

    fn last_on_disk(&mut self, number: u32) -> Result<Option<(u64, f64)>> {
        let Some((_, newest_s)) = self.rows.span(COARSE_S)? else { return Ok(None) };
        let found = self.rows.points(number, COARSE_S, newest_s - GRAINS[1].1, i64::MAX, READ_MAX)?;
        Ok(found.last().map(|row| (millis(row.at_s + i64::from(COARSE_S)), row.mean)))
    }

    /// What is on disk, what waits to be written, and what is not complete yet.
    fn stored(&mut self, number: u32, grain_s: u32, from_ms: u64, to_ms: u64) -> Result<Vec<Point>> {
        let grain = i64::from(grain_s);
        let (from_s, to_s) = (seconds(from_ms).div_euclid(grain) * grain, seconds(to_ms.saturating_add(999)));
        let mut rows = self.rows.points(number, grain_s, from_s, to_s, READ_MAX)?;
        let waiting = self.pending.iter().filter(|row| row.series == number && row.grain_s == grain_s).copied();
        rows.extend(waiting);
        rows.extend(self.series[number as usize].open(grain_s).map(|bucket| row(number, grain_s, bucket)));
        rows.retain(|row| (from_s..to_s).contains(&row.at_s));
        rows.sort_by_key(|row| row.at_s);
        let point = |row: SampleRow| Point { at_ms: millis(row.at_s), mean: row.mean, max: row.max, count: row.count };
        Ok(rows.into_iter().map(point).collect())
    }

    /// Keeps a planning, by the number of the event before it; of all the last [`PLANNINGS_MAX`].
    ///
    /// # Errors
    /// When the database refuses: then it is not kept.
    pub fn keep_planning(&mut self, after: u64, bytes: &[u8]) -> Result<()> {
        self.rows.put_planning(after, bytes, PLANNINGS_MAX)
    }

    /// The plannings that are kept, in order, each with the number of the event before it.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn plannings(&mut self) -> Result<Vec<(u64, Vec<u8>)>> {
        self.rows.plannings()
    }

    /// Writes all that came, also what is not complete: before the end of the program.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn flush(&mut self) -> Result<()> {
        for (series, number) in self.series.iter_mut().zip(0..) {
            self.pending
                .extend(series.close().into_iter().flatten().map(|(grain_s, bucket)| row(number, grain_s, &bucket)));
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            self.rows.insert(&self.pending)?;
            self.pending.clear();
        }
        Ok(())
    }

    /// Removes what is too old, and the oldest of what is too much: first of the fine points, as the coarse ones tell the same.
    fn expire(&mut self, now_s: i64) -> Result<()> {
        for (grain_s, kept_s) in GRAINS {
            self.rows.remove_before(grain_s, now_s - kept_s)?;
        }
        for _ in 0..CUTS_MAX {
            if self.rows.bytes()? <= self.bytes_max {
                break;
            }
            let (grain_s, oldest_s, newest_s) = match (self.rows.span(FINE_S)?, self.rows.span(COARSE_S)?) {
                (Some((oldest, newest)), _) if newest - oldest > EXPIRE_S => (FINE_S, oldest, newest),
                (_, Some((oldest, newest))) => (COARSE_S, oldest, newest),
                _ => break,
            };
            let before_s = oldest_s + ((newest_s - oldest_s) / CUT_SHARE).max(i64::from(grain_s));
            let removed = self.rows.remove_before(grain_s, before_s)?;
            tracing::info!(grain_s, removed, "the archive is full: its oldest points go");
        }
        Ok(())
    }

    fn refused(&self, name: &str, why: &'static str) -> StoreError {
        StoreError::Series { name: name.chars().take(SERIES_NAME_MAX).collect(), why }
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::debug!(%error, "the last samples are lost");
        }
    }
}

fn row(series: u32, grain_s: u32, bucket: &Bucket) -> SampleRow {
    SampleRow { series, grain_s, at_s: bucket.at_s, count: bucket.count, mean: bucket.mean, max: bucket.max }
}

/// Points that begin within the same step become one. At most `most`: a window that begins within a step has one more, the first goes.
fn merged(points: Vec<Point>, step_ms: u64, most: usize) -> Vec<Point> {
    let mut out: Vec<Point> = Vec::new();
    for point in points {
        let at_ms = point.at_ms / step_ms * step_ms;
        match out.last_mut().filter(|last| last.at_ms == at_ms) {
            Some(last) => {
                let (a, b) = (f64::from(last.count), f64::from(point.count));
                last.mean = (last.mean * a + point.mean * b) / (a + b);
                last.max = last.max.max(point.max);
                last.count = last.count.saturating_add(point.count);
            }
            None => out.push(Point { at_ms, ..point }),
        }
    }
    let extra = out.len().saturating_sub(most);
    out.drain(..extra);
    out
}

/// Both ways there is room for all times that there are.
fn seconds(ms: u64) -> i64 {
    i64::try_from(ms / 1_000).unwrap_or(i64::MAX)
}

fn millis(s: i64) -> u64 {
    u64::try_from(s).unwrap_or(0).saturating_mul(1_000)
}
