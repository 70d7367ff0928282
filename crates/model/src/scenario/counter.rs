//! What can be counted of one direction of a link.

use std::time::Duration;

use units::{Bytes, Rate, Span};

use crate::network::forms;

/// Something that is counted, or follows from what is. Packets are those the link sees: the segments of a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Packets that came.
    ArrivedPackets,
    /// Bytes that came.
    ArrivedBytes,
    /// Packets that left.
    DepartedPackets,
    /// Bytes that left.
    DepartedBytes,
    /// Packets dropped, whatever the cause.
    Dropped,
    /// Packets dropped because the queue was full.
    DroppedQueue,
    /// Packets lost as it was set.
    DroppedLoss,
    /// Packets dropped because the link was cut.
    DroppedCut,
    /// Packets dropped because the emulator held too many.
    DroppedDelayLine,
    /// Packets marked (ECN).
    Marked,
    /// Packets with a bit changed.
    Corrupted,
    /// Copies made.
    Duplicated,
    /// Mean rate of what left.
    Rate,
    /// Share of the time in which the link was busy.
    Utilisation,
    /// Bytes in the queue as packets found it: median.
    QueueP50,
    /// The same, 99th percentile.
    QueueP99,
    /// The same, largest.
    QueueMax,
    /// Release minus due time of packets: median.
    LatenessP50,
    /// The same, 99th percentile.
    LatenessP99,
    /// The same, largest.
    LatenessMax,
}

/// Over what time a counter says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A sum: since the link came up, or since a time.
    Sum,
    /// A mean: since the begin, or since a time.
    Mean,
    /// A distribution since the link came up.
    Always,
}

/// What a counter counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Time,
    /// Bits per second.
    Rate,
    /// Parts per million.
    Share,
}

type Row = (Counter, &'static str, Unit, Over);

const TABLE: [Row; 20] = [
    (Counter::ArrivedPackets, "arrived.packets", Unit::Packets, Over::Sum),
    (Counter::ArrivedBytes, "arrived.bytes", Unit::Bytes, Over::Sum),
    (Counter::DepartedPackets, "departed.packets", Unit::Packets, Over::Sum),
    (Counter::DepartedBytes, "departed.bytes", Unit::Bytes, Over::Sum),
    (Counter::Dropped, "dropped", Unit::Packets, Over::Sum),
    (Counter::DroppedQueue, "dropped.queue", Unit::Packets, Over::Sum),
    (Counter::DroppedLoss, "dropped.loss", Unit::Packets, Over::Sum),
    (Counter::DroppedCut, "dropped.cut", Unit::Packets, Over::Sum),
    (Counter::DroppedDelayLine, "dropped.delay_line", Unit::Packets, Over::Sum),
    (Counter::Marked, "marked", Unit::Packets, Over::Sum),
    (Counter::Corrupted, "corrupted", Unit::Packets, Over::Sum),
    (Counter::Duplicated, "duplicated", Unit::Packets, Over::Sum),
    (Counter::Rate, "rate", Unit::Rate, Over::Mean),
    (Counter::Utilisation, "utilisation", Unit::Share, Over::Mean),
    (Counter::QueueP50, "queue.p50", Unit::Bytes, Over::Always),
    (Counter::QueueP99, "queue.p99", Unit::Bytes, Over::Always),
    (Counter::QueueMax, "queue.max", Unit::Bytes, Over::Always),
    (Counter::LatenessP50, "lateness.p50", Unit::Time, Over::Always),
    (Counter::LatenessP99, "lateness.p99", Unit::Time, Over::Always),
    (Counter::LatenessMax, "lateness.max", Unit::Time, Over::Always),
];

impl Counter {
    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|(_, name, ..)| *name)
    }

    /// The counter of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Counter> {
        TABLE.iter().find(|(_, known, ..)| *known == name).map(|(counter, ..)| *counter)
    }

    fn row(self) -> &'static Row {
        TABLE.iter().find(|(counter, ..)| *counter == self).expect("each has a row: a test looks")
    }

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What it counts in.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.row().2
    }

    /// Over what time.
    #[must_use]
    pub fn over(self) -> Over {
        self.row().3
    }
}

impl Unit {
    /// Reads a value.
    ///
    /// # Errors
    /// In one line, what to write.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        let told = |error: units::ParseError| error.to_string();
        match self {
            Unit::Packets => text.trim().parse().map_err(|_| "write a whole number of packets".to_owned()),
            Unit::Bytes => text.parse::<Bytes>().map(Bytes::get).map_err(told),
            Unit::Time => {
                let span: Span = text.parse().map_err(told)?;
                u64::try_from(span.get().as_nanos()).map_err(|_| "write less than 500 years".to_owned())
            }
            Unit::Rate => text.parse::<Rate>().map(Rate::bps).map_err(told),
            Unit::Share => forms::share(text).map(|share| (share * 1e6).round() as u64),
        }
    }

    /// A value for people, rounded.
    #[must_use]
    pub fn text(self, value: u64) -> String {
        match self {
            Unit::Packets => value.to_string(),
            Unit::Bytes => Bytes::new(value).to_string(),
            Unit::Time => Span::new(Duration::from_nanos(value)).to_string(),
            Unit::Rate => Rate::from_bps(value).to_string(),
            Unit::Share => format!("{:.2} %", value as f64 / 1e4),
        }
    }

    /// A value as [`Unit::parse`] reads it.
    #[must_use]
    pub fn exact(self, value: u64) -> String {
        match self {
            Unit::Packets => value.to_string(),
            Unit::Bytes => format!("{:#}", Bytes::new(value)),
            Unit::Time => format!("{:#}", Span::new(Duration::from_nanos(value))),
            Unit::Rate => format!("{:#}", Rate::from_bps(value)),
            Unit::Share => format!("{} %", value as f64 / 1e4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_row() {
        for (n, (counter, name, ..)) in TABLE.iter().enumerate() {
            assert_eq!(*counter as usize, n, "{name}");
            assert_eq!(Counter::named(name), Some(*counter));
        }
        assert_eq!(Counter::LatenessMax as usize + 1, TABLE.len(), "the last variant has the last row");
    }

    #[test]
    fn values_read_back() {
        for (unit, text, value) in [
            (Unit::Packets, "12", 12),
            (Unit::Bytes, "3 MB", 3_000_000),
            (Unit::Time, "1 ms", 1_000_000),
            (Unit::Rate, "900 Mb/s", 900_000_000),
            (Unit::Share, "95 %", 950_000),
        ] {
            assert_eq!(unit.parse(text), Ok(value));
            assert_eq!(unit.parse(&unit.exact(value)), Ok(value));
        }
        assert!(Unit::Bytes.parse("3").is_err(), "a number without a unit");
        assert!(Unit::Packets.parse("-1").is_err());
    }
}
