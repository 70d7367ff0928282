//! Talking to the kernel about its network: route netlink (`NETLINK_ROUTE`), messages and attributes.
//!
//! What the messages mean is the caller's matter; here they are framed, sent, numbered, and read back.
//!
//! Source: `netlink(7)`, `rtnetlink(7)`, `include/uapi/linux/netlink.h`.

pub mod rule;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::socket::raw::set_bytes;

/// Bytes of one datagram; the kernel fills at most 32 KiB of it in a dump.
const DATAGRAM_BYTES: usize = 64 << 10;
/// Bytes of all answers to one question: far more than the classes, rules and marked routes of a big router.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A dump during which things changed is asked again, this often.
const DUMPS_MAX: usize = 8;
/// The kernel answers within the call; this is for one that does not.
const PATIENCE: Duration = Duration::from_secs(10);

const HEADER_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;

const SOL_NETLINK: i32 = 270;
const NETLINK_CAP_ACK: i32 = 10;
const NETLINK_EXT_ACK: i32 = 11;
const NETLINK_GET_STRICT_CHK: i32 = 12;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLM_F_DUMP: u16 = 0x300;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLA_TYPE_MASK: u16 = 0x3fff;

/// What a change does about what is there: the flags of `NEW…` messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// There must be none yet (`CREATE | EXCL`); also for what is deleted.
    Create,
    /// It takes the place of what is there (`CREATE | REPLACE`).
    Replace,
    /// What is there gets other values.
    Modify,
    /// It goes.
    Delete,
}

impl Change {
    fn flags(self) -> u16 {
        match self {
            Change::Create => 0x400 | 0x200,
            Change::Replace => 0x400 | 0x100,
            Change::Modify | Change::Delete => 0,
        }
    }
}

/// One message of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Such as `RTM_NEWLINK`.
    pub kind: u16,
    /// What follows the header: a struct of this kind, then attributes.
    pub body: Vec<u8>,
}

/// What the kernel says instead.
#[derive(Debug, thiserror::Error)]
#[error("{}", .text.as_deref().unwrap_or("the kernel refuses it"))]
pub struct Refused {
    /// The kernel's own words, where it has some.
    pub text: Option<String>,
    /// The error number.
    #[source]
    pub source: io::Error,
}

impl From<io::Error> for Refused {
    fn from(source: io::Error) -> Refused {
        Refused { text: None, source }
    }
}

/// A conversation with the kernel about the network namespace that it was opened in.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens one; nobody needs a privilege to look.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn open() -> io::Result<Netlink> {
        // Protocol 0 is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        // Kernels before 4.20 have not all of them: then errors have no words, and dumps more than was asked for.
        for option in [NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK] {
            let _ = set_bytes(socket.as_fd(), SOL_NETLINK, option, &1_i32.to_ne_bytes());
        }
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Changes something, and waits for the kernel's word that it has.
    ///
    /// # Errors
    ///
    /// What the kernel says: `PermissionDenied` without CAP_NET_ADMIN.
    pub fn change(&mut self, kind: u16, change: Change, body: &[u8]) -> Result<(), Refused> {
        self.send(kind, NLM_F_ACK | change.flags(), body)?;
        let mut all = Vec::new();
        self.receive(&mut all).map(drop)
    }

    /// All things of a kind: `kind` is the `GET…` message, `body` what they are chosen by.
    ///
    /// # Errors
    ///
    /// What the kernel says; more than [`ANSWER_BYTES_MAX`]; things that change all the time.
    pub fn dump(&mut self, kind: u16, body: &[u8]) -> Result<Vec<Message>, Refused> {
        for _ in 0..DUMPS_MAX {
            self.send(kind, NLM_F_DUMP, body)?;
            let mut all = Vec::new();
            if self.receive(&mut all)? {
                return Ok(all);
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "it changes while it is read, again and again").into())
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let length = u32::try_from(HEADER_BYTES + body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        message.extend(body);
        rustix::io::retry_on_intr(|| rustix::net::send(&self.socket, &message, SendFlags::empty()))?;
        Ok(())
    }

    /// Reads to the end of an answer; whether nothing changed meanwhile.
    fn receive(&self, all: &mut Vec<Message>) -> Result<bool, Refused> {
        let mut buffer = vec![0; DATAGRAM_BYTES];
        let mut bytes = 0;
        let mut is_whole = true;
        loop {
            let flags = RecvFlags::TRUNC;
            let (_, length) = rustix::io::retry_on_intr(|| rustix::net::recv(&self.socket, &mut buffer[..], flags))
                .map_err(io::Error::from)?;
            bytes += length;
            if length > DATAGRAM_BYTES || bytes > ANSWER_BYTES_MAX {
                let text = format!("an answer of the kernel is longer than {ANSWER_BYTES_MAX} bytes");
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, text).into());
            }
            for raw in messages(&buffer[..length]) {
                // Answers to a question that was given up before.
                if raw.sequence != self.sequence {
                    continue;
                }
                is_whole &= raw.flags & NLM_F_DUMP_INTR == 0;
                match raw.kind {
                    NLMSG_DONE | NLMSG_ERROR => return ended(&raw).map(|()| is_whole),
                    kind => all.push(Message { kind, body: raw.body.to_vec() }),
                }
            }
        }
    }
}

struct Raw<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'a [u8],
}

/// The messages of a datagram; what is cut off ends them.
fn messages(mut left: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    std::iter::from_fn(move || {
        let length = number::<4>(left, 0).map(u32::from_ne_bytes)? as usize;
        let body = left.get(HEADER_BYTES..length)?;
        let raw = Raw {
            kind: number(left, 4).map(u16::from_ne_bytes)?,
            flags: number(left, 6).map(u16::from_ne_bytes)?,
            sequence: number(left, 8).map(u32::from_ne_bytes)?,
            body,
        };
        left = left.get(aligned(length)..).unwrap_or_default();
        Some(raw)
    })
}

/// `NLMSG_ERROR` and `NLMSG_DONE` begin with an error number, 0 or negative.
fn ended(raw: &Raw<'_>) -> Result<(), Refused> {
    let code = number(raw.body, 0).map_or(0, i32::from_ne_bytes);
    if code == 0 {
        return Ok(());
    }
    // Behind it an error has the header of what was asked, and only that (NETLINK_CAP_ACK).
    let skip = if raw.kind == NLMSG_ERROR { 4 + HEADER_BYTES } else { 4 };
    let told = raw.body.get(skip..).filter(|_| raw.flags & NLM_F_ACK_TLVS != 0).unwrap_or_default();
    let text = attributes(told).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG).map(|(_, value)| text(value));
    Err(Refused { text, source: io::Error::from_raw_os_error(code.wrapping_neg()) })
}

/// The attributes in `left`, by their kind; what is cut off ends them.
pub fn attributes(mut left: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(number(left, 0).map(u16::from_ne_bytes)?);
        let kind = number(left, 2).map(u16::from_ne_bytes)? & NLA_TYPE_MASK;
        let value = left.get(ATTRIBUTE_BYTES..length)?;
        left = left.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The attribute of a kind, if it is there.
#[must_use]
pub fn attribute(all: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(all).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// `N` bytes from `at`, if they are there.
#[must_use]
pub fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// A text that may end in a zero byte.
#[must_use]
pub fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// Appends an attribute to a body.
///
/// # Panics
///
/// When `value` is longer than the 65,531 bytes of an attribute.
pub fn put(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(ATTRIBUTE_BYTES + value.len()).expect("an attribute is short");
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(aligned(body.len()), 0);
}

/// Messages and attributes begin at multiples of four bytes.
const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTM_GETLINK: u16 = 18;
    const RTM_DELLINK: u16 = 17;
    const IFLA_IFNAME: u16 = 3;
    const IFINFO_BYTES: usize = 16;

    #[test]
    fn the_loopback_is_told() {
        let mut kernel = Netlink::open().unwrap();
        let links = kernel.dump(RTM_GETLINK, &[0; IFINFO_BYTES]).unwrap();
        let names: Vec<String> =
            links.iter().filter_map(|link| attribute(link.body.get(IFINFO_BYTES..)?, IFLA_IFNAME).map(text)).collect();
        assert!(names.contains(&"lo".to_owned()), "{names:?}");
    }

    #[test]
    fn a_refusal_has_its_error_and_the_next_question_its_answer() {
        let mut kernel = Netlink::open().unwrap();
        let mut body = vec![0; IFINFO_BYTES];
        put(&mut body, IFLA_IFNAME, b"no-such-thing\0");
        let refused = kernel.change(RTM_DELLINK, Change::Delete, &body).unwrap_err();
        let kind = refused.source.kind();
        assert!(refused.source.raw_os_error().is_some(), "{refused:?} {kind:?}");
        assert!(!kernel.dump(RTM_GETLINK, &[0; IFINFO_BYTES]).unwrap().is_empty());
    }

    #[test]
    fn attributes_come_back_and_what_is_cut_ends_them() {
        let mut body = Vec::new();
        put(&mut body, 3, b"abc");
        put(&mut body, 0x8004, &7_u32.to_ne_bytes());
        let found: Vec<(u16, &[u8])> = attributes(&body).collect();
        assert_eq!(found, [(3, &b"abc"[..]), (4, &7_u32.to_ne_bytes()[..])]);
        for cut in 0..body.len() {
            // Never a panic, never more than there is.
            assert!(attributes(&body[..cut]).count() <= 2);
            assert!(messages(&body[..cut]).count() <= 1);
        }
        assert_eq!(attributes(&[0, 0, 0, 0]).count(), 0, "a length of nothing does not go on for ever");
        assert_eq!(messages(&[0; 64]).count(), 0);
    }
}
