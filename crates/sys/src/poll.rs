//! Waiting for many sockets at once, and waking the waiter from another thread.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Most events that one [`Epoll::wait`] returns.
pub const EVENTS_MAX: usize = 256;

/// What one wants to hear about a descriptor. Hang-ups and errors are always told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// There is something to read, or the peer has closed.
    pub read: bool,
    /// There is room to write.
    pub write: bool,
    /// Tell each change once (edge triggered), not the state again and again (level triggered).
    pub edge: bool,
}

impl Interest {
    /// Level triggered: readable.
    pub const READ: Interest = Interest { read: true, write: false, edge: false };
    /// Level triggered: writable.
    pub const WRITE: Interest = Interest { read: false, write: true, edge: false };
    /// Level triggered: either.
    pub const BOTH: Interest = Interest { read: true, write: true, edge: false };
    /// Level triggered: only errors and hang-ups.
    pub const NONE: Interest = Interest { read: false, write: false, edge: false };

    /// The same, edge triggered.
    pub const fn edge(self) -> Interest {
        Interest { edge: true, ..self }
    }

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN | EventFlags::RDHUP, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags.set(EventFlags::ET, self.edge);
        flags
    }
}

/// Waits at most `timeout` for something to read at one descriptor, or its end. For a descriptor that is looked at
/// now and then; for many use an [`Epoll`].
///
/// # Errors
///
/// What `poll` says; an interrupted wait is no error, only shorter.
pub fn readable(fd: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let timeout = Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What happened to one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number it was added with.
    pub token: u64,
    /// A read will not block: data, the end, or an error to collect.
    pub readable: bool,
    /// A write will not block: room, or an error to collect.
    pub writable: bool,
    /// The peer will send no more.
    pub hangup: bool,
    /// The descriptor has an error to collect.
    pub error: bool,
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// When the process or the system has no descriptor left.
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll { fd: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Watches `fd` under the number `token`. Closing the last copy of `fd` ends the watch.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when it is watched, `PermissionDenied` for files that cannot be watched.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Changes the number and the interest; re-arms an edge trigger.
    ///
    /// # Errors
    ///
    /// `NotFound` when it is not watched.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Stops watching.
    ///
    /// # Errors
    ///
    /// `NotFound` when it is not watched.
    pub fn delete(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, fd)?)
    }

    /// As [`Epoll::wait`], to the nanosecond as far as the kernel's timers go (`epoll_pwait2`, Linux 5.11; before, a
    /// `ppoll` ahead).
    ///
    /// # Errors
    ///
    /// What `epoll_pwait2` says.
    pub fn wait_exactly(&self, events: &mut Vec<Event>, timeout: Duration) -> io::Result<()> {
        events.clear();
        let timeout = timespec(timeout);
        let mut space = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        // SAFETY: the kernel writes at most EVENTS_MAX events and reads one timespec; there is no signal mask.
        let happened = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                space.as_mut_ptr(),
                EVENTS_MAX,
                std::ptr::from_ref(&timeout),
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if happened < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::ENOSYS) {
                return none(error);
            }
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&timeout)).map_err(io::Error::from).or_else(|e| none(e).map(|()| 0))?;
            return self.wait(events, Some(Duration::ZERO));
        }
        events.extend(space[..happened as usize].iter().map(|e| {
            let flags = EventFlags::from_bits_retain(e.events);
            event(epoll::Event { flags, data: EventData::new_u64(e.u64) })
        }));
        Ok(())
    }

    /// Waits for at most `timeout` (`None`: for ever), and puts what happened into `events`, which
    /// is emptied first: up to [`EVENTS_MAX`] of them, none when the time is over or a signal came.
    ///
    /// The resolution is a millisecond, rounded up. It does not allocate once `events` has room for
    /// [`EVENTS_MAX`].
    ///
    /// # Errors
    ///
    /// What `epoll_wait` says.
    pub fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        let timeout = timeout.map(timespec);
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_MAX];
        match epoll::wait(&self.fd, &mut space, timeout.as_ref()) {
            Ok((happened, _)) => {
                events.extend(happened.iter().map(|e| event(*e)));
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

fn none(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

fn event(e: epoll::Event) -> Event {
    let flags = e.flags;
    let bad = EventFlags::ERR | EventFlags::HUP;
    Event {
        token: e.data.u64(),
        readable: flags.intersects(EventFlags::IN | EventFlags::RDHUP | bad),
        writable: flags.intersects(EventFlags::OUT | bad),
        hangup: flags.intersects(EventFlags::RDHUP | EventFlags::HUP),
        error: flags.contains(EventFlags::ERR),
    }
}

/// `span` for the kernel; more than 68 years is cut to that.
pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: span.as_secs().min(i32::MAX as u64) as i64, tv_nsec: i64::from(span.subsec_nanos()) }
}

/// Wakes a thread that sleeps in [`Epoll::wait`]: add it there with [`Interest::READ`].
///
/// Clones wake the same thread.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

impl Waker {
    /// A waker that is not signalled.
    ///
    /// # Errors
    ///
    /// When the process or the system has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker { fd: Arc::new(fd) })
    }

    /// Signals it, from any thread; it stays so until [`Waker::drain`]. Many wakes are one.
    pub fn wake(&self) {
        // The only failure is a counter that is full, and then the waiter is awake.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.fd, &1u64.to_ne_bytes()));
    }

    /// Takes the signal away; says whether there was one.
    pub fn drain(&self) -> bool {
        let mut count = [0; 8];
        rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut count)).is_ok()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn one_descriptor() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let begin = Instant::now();
        assert!(!readable(&b, Duration::from_millis(20)).unwrap());
        assert!(begin.elapsed() >= Duration::from_millis(20));
        a.write_all(b"x").unwrap();
        assert!(readable(&b, Duration::ZERO).unwrap());
        (&b).read_exact(&mut [0]).unwrap();
        assert!(!readable(&b, Duration::ZERO).unwrap());
        drop(a);
        assert!(readable(&b, Duration::ZERO).unwrap(), "the end is something to read");
    }

    #[test]
    fn an_exact_wait_ends_with_the_time_or_the_event() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        epoll.add(&b, 7, Interest::READ).unwrap();
        let begin = Instant::now();
        epoll.wait_exactly(&mut events, Duration::from_micros(300)).unwrap();
        assert!(events.is_empty() && begin.elapsed() >= Duration::from_micros(300));
        a.write_all(b"x").unwrap();
        epoll.wait_exactly(&mut events, Duration::from_secs(60)).unwrap();
        assert_eq!(events.iter().map(|e| (e.token, e.readable)).collect::<Vec<_>>(), [(7, true)]);
    }

    #[test]
    fn level_and_edge() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        epoll.add(&b, u64::MAX, Interest::READ).unwrap();
        epoll.wait(&mut events, NOW).unwrap();
        assert!(events.is_empty());
        a.write_all(b"x").unwrap();
        for _ in 0..2 {
            epoll.wait(&mut events, NOW).unwrap();
            assert_eq!(events.len(), 1);
            assert_eq!(events[0].token, u64::MAX);
            assert!(events[0].readable && !events[0].writable && !events[0].hangup);
        }
        epoll.modify(&b, 7, Interest::BOTH.edge()).unwrap();
        epoll.wait(&mut events, NOW).unwrap();
        assert_eq!((events[0].token, events[0].readable, events[0].writable), (7, true, true));
        epoll.wait(&mut events, NOW).unwrap();
        assert!(events.is_empty(), "an edge is told once");
        b.read_exact(&mut [0]).unwrap();
        drop(a);
        epoll.wait(&mut events, NOW).unwrap();
        assert!(events[0].hangup && events[0].readable);
        epoll.delete(&b).unwrap();
        assert_eq!(epoll.delete(&b).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(epoll.modify(&b, 1, Interest::READ).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn adding_twice_is_an_error() {
        let (a, _b) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(&a, 0, Interest::NONE).unwrap();
        assert_eq!(epoll.add(&a, 0, Interest::READ).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn waits_no_shorter_than_asked() {
        let epoll = Epoll::new().unwrap();
        let mut events = Vec::new();
        for micros in [1, 900, 5_500] {
            let (start, span) = (Instant::now(), Duration::from_micros(micros));
            epoll.wait(&mut events, Some(span)).unwrap();
            assert!(start.elapsed() >= span);
        }
        // Longer than the kernel counts must not overflow.
        let waker = Waker::new().unwrap();
        waker.wake();
        epoll.add(&waker, 3, Interest::READ).unwrap();
        epoll.wait(&mut events, Some(Duration::MAX)).unwrap();
        assert_eq!(events.len(), 1);
    }

    #[test]
    fn more_events_than_fit_come_in_turns() {
        let epoll = Epoll::new().unwrap();
        let wakers: Vec<Waker> = (0..EVENTS_MAX + 10).map(|_| Waker::new().unwrap()).collect();
        for (i, w) in wakers.iter().enumerate() {
            epoll.add(w, i as u64, Interest::READ).unwrap();
            w.wake();
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut events = Vec::new();
        for _ in 0..2 {
            epoll.wait(&mut events, NOW).unwrap();
            for e in &events {
                seen.insert(e.token);
                wakers[e.token as usize].drain();
            }
        }
        assert_eq!(seen.len(), wakers.len());
    }

    #[test]
    fn wakes_across_threads() {
        let epoll = Epoll::new().unwrap();
        let waker = Waker::new().unwrap();
        epoll.add(&waker, 1, Interest::READ).unwrap();
        assert!(!waker.drain());
        let other = waker.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            for _ in 0..1000 {
                other.wake();
            }
        });
        let mut events = Vec::new();
        epoll.wait(&mut events, Some(Duration::from_secs(10))).unwrap();
        assert_eq!(events.len(), 1);
        thread.join().unwrap();
        assert!(waker.drain());
        assert!(!waker.drain(), "many wakes are one");
    }
}
