//! Whole-file digests in the format of `sha256sum`, so that `sha256sum -c` reads it back.
//!
//! A line is the digest in hexadecimal, two spaces and the path beneath the destination. If the path contains
//! a backslash, a newline or a carriage return, these are written `\\`, `\n` and `\r`, and the line begins
//! with a backslash.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mover::event::{Event, FileEvent};

use super::{End, Exporter, print};

/// Where the lines go.
enum Place {
    /// A file that appears when all is done.
    File { path: PathBuf, beside: PathBuf, file: BufWriter<File> },
    /// Standard output, as they come.
    Output,
}

/// The exporter.
pub(crate) struct Digests(Place);

impl Digests {
    /// Into a file.
    ///
    /// # Errors
    /// When it cannot be written there.
    pub(crate) fn create(path: &Path) -> Result<Digests> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let file = BufWriter::new(File::create(&beside).with_context(|| cannot_write(path))?);
        Ok(Digests(Place::File { path: path.to_owned(), beside, file }))
    }

    /// Onto standard output.
    pub(crate) fn printed() -> Digests {
        Digests(Place::Output)
    }

    fn write(&mut self, line: &[u8]) -> Result<()> {
        match &mut self.0 {
            Place::File { path, file, .. } => file.write_all(line).with_context(|| cannot_write(path)),
            Place::Output => print(line),
        }
    }
}

impl Exporter for Digests {
    fn event(&mut self, event: &Event) -> Result<()> {
        let Event::File(file) = event else {
            return Ok(());
        };
        match &file.digest {
            Some(digest) => self.write(&line(digest, &path_of(file))),
            None => Ok(()),
        }
    }

    fn end(&mut self, _end: &End<'_>) -> Result<()> {
        let Place::File { path, beside, file } = &mut self.0 else {
            return Ok(());
        };
        let mut finish = || {
            file.flush()?;
            file.get_ref().sync_all()?;
            fs::rename(&*beside, &*path)
        };
        finish().with_context(|| cannot_write(path))
    }
}

/// What did not come to its end is taken away.
impl Drop for Digests {
    fn drop(&mut self) {
        if let Place::File { beside, .. } = &self.0 {
            // After a rename it is no longer there.
            let _ = fs::remove_file(beside);
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the digests {}", path.display())
}

/// One line, with its newline.
fn line(digest: &str, path: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(digest.len() + path.len() + 4);
    if path.iter().any(|byte| b"\\\n\r".contains(byte)) {
        line.push(b'\\');
    }
    line.extend_from_slice(digest.as_bytes());
    line.extend_from_slice(b"  ");
    for byte in path {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            other => line.push(*other),
        }
    }
    line.push(b'\n');
    line
}

/// The path as bytes: given apart, or the text with its escapes taken back.
fn path_of(file: &FileEvent) -> Vec<u8> {
    file.path_bytes.clone().unwrap_or_else(|| unescape(&file.path).into_bytes())
}

/// Takes back what `RelPath`'s text form escapes: backslashes and control characters, as Rust writes them.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut left = text;
    while let Some(at) = left.find('\\') {
        plain.push_str(&left[..at]);
        let escape = &left[at..];
        let (meant, length) = escaped(escape).unwrap_or(('\\', 1));
        plain.push(meant);
        left = &escape[length..];
    }
    plain.push_str(left);
    plain
}

/// The character that an escape at the start of `text` means, and the escape's length.
fn escaped(text: &str) -> Option<(char, usize)> {
    match text.as_bytes().get(1)? {
        b'n' => Some(('\n', 2)),
        b'r' => Some(('\r', 2)),
        b't' => Some(('\t', 2)),
        b'\\' => Some(('\\', 2)),
        b'u' => {
            let digits = text.strip_prefix("\\u{")?;
            let end = digits.find('}')?;
            let meant = char::from_u32(u32::from_str_radix(&digits[..end], 16).ok()?)?;
            Some((meant, "\\u{".len() + end + 1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn event(path: &str, path_bytes: Option<Vec<u8>>, digest: Option<&str>) -> Event {
        let digest = digest.map(str::to_owned);
        Event::File(FileEvent { path: path.into(), path_bytes, outcome: "placed", size: 0, why: None, digest })
    }

    #[test]
    fn lines() {
        let cases: [(&[u8], &[u8]); 5] = [
            (b"dir/a b", b"12  dir/a b\n"),
            (b"a\\b", b"\\12  a\\\\b\n"),
            (b"a\nb", b"\\12  a\\nb\n"),
            (b"a\rb", b"\\12  a\\rb\n"),
            (b"\xff\t", b"12  \xff\t\n"),
        ];
        for (path, expected) in cases {
            assert_eq!(line("12", path), expected, "{path:?}");
        }
    }

    #[test]
    fn the_tool_itself_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let names: [&[u8]; 7] =
            [b"plain", b"two words ", b"back\\slash", b"new\nline", b"carriage\rreturn", b"\xff\xfe", b"\\n"];
        for name in names {
            fs::write(dir.path().join(std::ffi::OsStr::from_bytes(name)), b"").unwrap();
        }
        let path = dir.path().join("digests");
        let mut digests = Digests::create(&path).unwrap();
        for name in names {
            let shown = proto::RelPath::new(name).unwrap().to_string();
            let bytes = std::str::from_utf8(name).is_err().then(|| name.to_vec());
            digests.event(&event(&shown, bytes, Some(EMPTY))).unwrap();
        }
        digests.event(&event("no-digest", None, None)).unwrap();
        digests.end(&End { summary: &Default::default(), error: None }).unwrap();
        let Ok(checked) =
            Command::new("sha256sum").args(["--strict", "--quiet", "-c"]).arg(&path).current_dir(&dir).output()
        else {
            return; // no such tool on this system
        };
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }

    proptest! {
        #[test]
        fn escapes_are_taken_back(name in "[^/\0]{1,40}") {
            prop_assume!(name != "." && name != ".." && name.len() <= 255);
            let shown = proto::RelPath::new(name.as_bytes()).unwrap().to_string();
            prop_assert_eq!(unescape(&shown), name);
        }
    }
}
