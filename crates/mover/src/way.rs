//! A way to the other end: what a host chooses of it.

use std::net::{IpAddr, SocketAddr};

use units::Marks;

/// A way to the other end, and what routers tell it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// An address of the other end.
    pub to: SocketAddr,
    /// The address of ours that it is reached from; `None` for the kernel's choice.
    pub from: Option<IpAddr>,
    /// What packets carry on it, whatever the session's settings say; without a mark it is what those say. The other end's kernel
    /// answers with the same where it is told to (`docs/paths.md`).
    pub marks: Marks,
}

impl Way {
    /// To an address, with what the kernel chooses.
    #[must_use]
    pub const fn to(to: SocketAddr) -> Way {
        Way { to, from: None, marks: Marks::NONE }
    }

    /// To each of these addresses, from these in turn (none for the kernel's choice) and with these marks in turn (none for nothing).
    #[must_use]
    pub fn each(to: &[SocketAddr], from: &[IpAddr], marks: &[Marks]) -> Vec<Way> {
        let all = to.iter().enumerate().map(|(n, &to)| Way {
            to,
            from: (!from.is_empty()).then(|| from[n % from.len()]),
            marks: if marks.is_empty() { Marks::NONE } else { marks[n % marks.len()] },
        });
        all.collect()
    }

    /// Whether this way is the one that is `asked` for, which may leave open from where.
    #[must_use]
    pub fn is(&self, asked: &Way) -> bool {
        self.to == asked.to && self.marks == asked.marks && (asked.from.is_none() || self.from == asked.from)
    }
}

#[test]
fn ways_take_addresses_and_marks_in_turn() {
    let to: Vec<SocketAddr> = (1..=3).map(|n| SocketAddr::from(([10, 0, 0, n], 4810))).collect();
    let from = [IpAddr::from([10, 1, 0, 1]), IpAddr::from([10, 1, 0, 2])];
    let marks = [1, 2, 3].map(|dscp| Marks { dscp: Some(dscp), flow_label: None });
    let all = Way::each(&to, &from, &marks);
    let third = Way { to: to[2], from: Some(from[0]), marks: marks[2] };
    assert_eq!(all[2], third);
    assert_eq!(Way::each(&to[..1], &[], &[]), [Way::to(to[0])]);
    // Between the same addresses the marks tell.
    assert!(third.is(&Way { from: None, ..third }) && !third.is(&Way { marks: marks[0], ..third }));
    assert!(!third.is(&Way { from: Some(from[1]), ..third }) && !third.is(&all[1]));
}
