//! Addresses with a length: `192.0.2.0/24`, `2001:db8::11`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An IP prefix. No bit behind its length is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// The prefix of that length that an address is in; `None` if addresses of its family are shorter.
    #[must_use]
    pub fn of(address: IpAddr, length: u8) -> Option<Prefix> {
        let address = match address {
            IpAddr::V4(address) if length <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                IpAddr::from((u32::from(address) & mask).to_be_bytes())
            }
            IpAddr::V6(address) if length <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                IpAddr::from((u128::from(address) & mask).to_be_bytes())
            }
            _ => return None,
        };
        Some(Prefix { address, length })
    }

    /// The prefix of one address.
    #[must_use]
    pub fn host(address: IpAddr) -> Prefix {
        Prefix { address, length: if address.is_ipv6() { 128 } else { 32 } }
    }

    /// The prefix of all addresses of a family.
    #[must_use]
    pub fn all(is_v6: bool) -> Prefix {
        let address = if is_v6 { IpAddr::from([0_u8; 16]) } else { IpAddr::from([0_u8; 4]) };
        Prefix { address, length: 0 }
    }

    /// Its first address.
    #[must_use]
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// How many of its bits count.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether it is one of IPv6.
    #[must_use]
    pub fn is_v6(self) -> bool {
        self.address.is_ipv6()
    }

    /// The bytes of its first address, in the order of the network.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        match self.address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let bad = || {
            let shown: String = text.chars().take(60).collect();
            format!("`{}` is no prefix: write for example 192.0.2.0/24 or 2001:db8::11", shown.escape_debug())
        };
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let whole = if address.is_ipv6() { 128 } else { 32 };
        let length = length.map_or(Ok(whole), |length| length.parse().map_err(|_| bad()))?;
        let prefix = Prefix::of(address, length).ok_or_else(bad)?;
        match prefix.address == address {
            true => Ok(prefix),
            false => Err(format!("`{text}` has bits behind its length: the prefix is {prefix}")),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.is_v6() { 128 } else { 32 };
        match (self.length, self.length == whole) {
            (_, true) => write!(f, "{}", self.address),
            (length, false) => write!(f, "{}/{length}", self.address),
        }
    }
}

#[test]
fn prefixes_are_read_and_shown() {
    for text in ["192.0.2.0/24", "0.0.0.0/0", "10.1.2.3", "2001:db8::/32", "::/0", "2001:db8::11", "10.128.0.0/9"] {
        assert_eq!(text.parse::<Prefix>().map(|prefix| prefix.to_string()), Ok(text.to_owned()));
    }
    for bad in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "/8", "host"] {
        assert!(bad.parse::<Prefix>().is_err_and(|why| why.contains("write for example")), "{bad}");
    }
    let bits = "10.0.0.1/8".parse::<Prefix>().expect_err("it has a bit too many");
    assert_eq!(bits, "`10.0.0.1/8` has bits behind its length: the prefix is 10.0.0.0/8");
}
