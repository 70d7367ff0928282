//! [`Window`]: when, from one moment to another.

/// A moment in nanoseconds, of whatever epoch its user keeps.
pub type Moment = i64;

/// A half-open window of time `[start, end)`, never empty.
///
/// Two windows that touch have nothing in common. Moments are within [`Window::EARLIEST`] and [`Window::LATEST`], so that a
/// moment plus the length of a window cannot overflow.
///
/// ```
/// use units::Window;
///
/// let morning = Window::new(0, 10).expect("it is not empty");
/// assert!(morning.contains(0) && !morning.contains(10));
/// assert_eq!(Window::new(10, 10), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    start: Moment,
    end: Moment,
}

impl Window {
    /// The first moment that a window may have: 73 years before the epoch.
    pub const EARLIEST: Moment = -(1 << 61);
    /// The last moment that a window may have: 73 years after the epoch, in 2043 of Unix time.
    pub const LATEST: Moment = 1 << 61;
    /// From the first moment to the last.
    pub const ALWAYS: Window = Window { start: Window::EARLIEST, end: Window::LATEST };

    /// From `start` to before `end`; `None` if that is empty or beyond the moments that there are.
    #[must_use]
    pub const fn new(start: Moment, end: Moment) -> Option<Window> {
        if start < end && start >= Window::EARLIEST && end <= Window::LATEST {
            Some(Window { start, end })
        } else {
            None
        }
    }

    /// From `start` for `nanos`; `None` as with [`Window::new`].
    #[must_use]
    pub const fn lasting(start: Moment, nanos: u64) -> Option<Window> {
        if nanos > Window::ALWAYS.nanos() || start > Window::LATEST {
            return None;
        }
        Window::new(start, start + nanos as i64)
    }

    /// Its first moment.
    #[must_use]
    pub const fn start(self) -> Moment {
        self.start
    }

    /// The first moment after it.
    #[must_use]
    pub const fn end(self) -> Moment {
        self.end
    }

    /// How long it is, in nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.end.abs_diff(self.start)
    }

    /// Whether a moment is in it.
    #[must_use]
    pub const fn contains(self, moment: Moment) -> bool {
        self.start <= moment && moment < self.end
    }

    /// What two windows have in common.
    #[must_use]
    pub fn common(self, other: Window) -> Option<Window> {
        Window::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// What is left of it from a moment on.
    #[must_use]
    pub fn from(self, moment: Moment) -> Option<Window> {
        Window::new(self.start.max(moment), self.end)
    }

    /// What is left of it before a moment.
    #[must_use]
    pub fn until(self, moment: Moment) -> Option<Window> {
        Window::new(self.start, self.end.min(moment))
    }
}

#[test]
fn windows_that_touch_have_nothing_in_common() {
    let window = |start, end| Window::new(start, end).expect("it is not empty");
    assert_eq!(window(0, 10).common(window(10, 20)), None);
    assert_eq!(window(0, 11).common(window(10, 20)), Some(window(10, 11)));
    assert_eq!(window(0, 10).from(4), Some(window(4, 10)));
    assert_eq!(window(0, 10).until(0), None);
    assert_eq!(Window::lasting(5, 0), None);
    assert_eq!(Window::lasting(Window::EARLIEST, Window::ALWAYS.nanos()), Some(Window::ALWAYS));
    assert_eq!(Window::lasting(Window::EARLIEST, u64::MAX), None);
    assert_eq!(Window::lasting(i64::MAX, 1), None);
}
