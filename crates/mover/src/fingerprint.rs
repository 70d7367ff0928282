//! The fingerprint of a certificate in text: `sha256:` and 64 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use crate::request::Fingerprint;

/// What the text begins with.
const PREFIX: &str = "sha256:";

/// Why a text is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no fingerprint: it is written `sha256:` and 64 hexadecimal digits")]
pub struct FingerprintError {
    /// What was given, shortened.
    text: String,
}

impl Fingerprint {
    /// The fingerprint of a certificate (DER).
    #[must_use]
    pub fn of(certificate: &[u8]) -> Fingerprint {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Fingerprint(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Reads what `Display` writes; upper case, a missing prefix, and colons between bytes (as
    /// `openssl x509 -fingerprint` prints them) are read too.
    fn from_str(text: &str) -> Result<Fingerprint, FingerprintError> {
        parse(text.trim())
            .ok_or_else(|| FingerprintError { text: text.chars().take(80).flat_map(char::escape_debug).collect() })
    }
}

fn parse(text: &str) -> Option<Fingerprint> {
    let digits = match text.get(..PREFIX.len()) {
        Some(prefix) if prefix.eq_ignore_ascii_case(PREFIX) => &text[PREFIX.len()..],
        _ => text,
    };
    let pairs: Vec<&[u8]> = if digits.contains(':') {
        digits.as_bytes().split(|&b| b == b':').collect()
    } else {
        digits.as_bytes().chunks(2).collect()
    };
    let bytes = pairs.into_iter().map(byte).collect::<Option<Vec<u8>>>()?;
    bytes.try_into().ok().map(Fingerprint)
}

fn byte(pair: &[u8]) -> Option<u8> {
    let [high, low] = pair else { return None };
    let digit = |b: &u8| char::from(*b).to_digit(16).map(|d| d as u8);
    Some(digit(high)? << 4 | digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn reads_what_it_writes() {
        let empty = Fingerprint::of(b"");
        assert_eq!(empty.to_string(), TEXT);
        assert_eq!(format!("{empty:?}"), TEXT);
        assert_eq!(TEXT.parse(), Ok(empty));
        assert_eq!(TEXT.to_uppercase().parse(), Ok(empty));
        assert_eq!(format!(" {} ", &TEXT[7..]).parse(), Ok(empty));
        let colons: Vec<String> = empty.0.iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(colons.join(":").parse(), Ok(empty));
    }

    #[test]
    fn refuses_what_is_none() {
        for bad in
            ["", "sha256:", &TEXT[..70], &format!("{TEXT}0"), &TEXT.replace("e3", "+3"), "sha1:00", "sha256:é", "é:"]
        {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad:?}");
        }
        let error = "a\nb".parse::<Fingerprint>().unwrap_err();
        assert_eq!(error.to_string(), "`a\\nb` is no fingerprint: it is written `sha256:` and 64 hexadecimal digits");
    }
}
