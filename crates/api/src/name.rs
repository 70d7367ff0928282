//! Names of files: any bytes, in JSON and for people.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path at an agent, or beneath one. In text, bytes that are no UTF-8, control characters and `%` are written as `%` and two hexadecimal
/// digits, so every name has one text and comes back from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub Vec<u8>);

/// A text that is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("after each `%` of a name two hexadecimal digits follow: write `%25` for a `%`")]
pub struct NameError;

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c == '%' || c.is_control() {
                    escaped(f, c.encode_utf8(&mut [0; 4]).as_bytes())?;
                } else {
                    fmt::Write::write_char(f, c)?;
                }
            }
            escaped(f, chunk.invalid())?;
        }
        Ok(())
    }
}

fn escaped(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "%{byte:02X}"))
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let [byte, after @ ..] = rest {
            rest = after;
            if *byte != b'%' {
                bytes.push(*byte);
                continue;
            }
            let [high, low, after @ ..] = rest else { return Err(NameError) };
            let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or(NameError);
            bytes.push(u8::try_from(digit(high)? << 4 | digit(low)?).expect("two digits are a byte"));
            rest = after;
        }
        Ok(Name(bytes))
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Name, D::Error> {
        String::deserialize(input)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Bytes that are no UTF-8, control characters and `%` are `%` and two hexadecimal digits."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back() {
        for bytes in [&b"plain/name"[..], b"", b"100%", b"a\nb", b"\xff\xfe", "ü/日本".as_bytes(), b"%zz", b"\xe2\x82"]
        {
            let name = Name(bytes.to_vec());
            let text = name.to_string();
            assert_eq!(text.parse(), Ok(name.clone()), "{text}");
            assert!(!text.contains(char::is_control), "{text}");
            let json = serde_json::to_string(&name).expect("it is text");
            assert_eq!(serde_json::from_str::<Name>(&json).expect("it was one"), name);
        }
        assert_eq!(Name(b"a%\xff\n".to_vec()).to_string(), "a%25%FF%0A");
        for bad in ["%", "%4", "%4x", "a%"] {
            assert_eq!(bad.parse::<Name>(), Err(NameError), "{bad}");
        }
    }
}
