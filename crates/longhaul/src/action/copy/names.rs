//! The list of `--files-from`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::Path;

use anyhow::{Context, Result};
use proto::RelPath;
use proto::limits::NAMES_MAX;

use crate::exit::{as_usage, usage};

/// Bytes of one name with its end; a longer one is no path.
const NAME_BYTES_MAX: u64 = proto::limits::PATH_MAX as u64 + 16;

/// Reads a list; `-` is standard input. Names end with a newline, or with a NUL.
///
/// # Errors
/// When it cannot be read, is empty or too long, or a name leads out of the source.
pub(in crate::action) fn read(from: &Path, null: bool) -> Result<Vec<RelPath>> {
    let shown = || format!("cannot read the list {}", from.display());
    let names = if from == Path::new("-") {
        parse(stdin().lock(), null)
    } else {
        let file = File::open(from).with_context(shown).map_err(as_usage)?;
        parse(BufReader::new(file), null)
    };
    let names = names.with_context(|| format!("--files-from {}", from.display()))?;
    if names.is_empty() {
        // An empty list means "everything" to the mover, which nobody meant who gave an empty list.
        return Err(usage(format!("the list {} names nothing", from.display())));
    }
    Ok(names)
}

fn parse(mut list: impl BufRead, null: bool) -> Result<Vec<RelPath>> {
    let end = if null { 0 } else { b'\n' };
    let mut names = Vec::new();
    let mut bytes = Vec::new();
    for line in 1_u64.. {
        bytes.clear();
        let read = (&mut list).take(NAME_BYTES_MAX).read_until(end, &mut bytes).context("cannot read the list")?;
        if read == 0 {
            break;
        }
        if bytes.last() == Some(&end) {
            bytes.pop();
        } else if read as u64 == NAME_BYTES_MAX {
            return Err(usage(format!("line {line} is too long for a name; if names end with NUL, add --null")));
        }
        if bytes.is_empty() {
            continue;
        }
        if names.len() == NAMES_MAX {
            return Err(usage(format!(
                "more than {NAMES_MAX} names: name the directories that they are in, or split the list"
            )));
        }
        names.push(name(&bytes).map_err(|why| usage(format!("line {line}: {why}")))?);
    }
    Ok(names)
}

/// A name as `find` and people write it: `./` before and `/` behind mean nothing.
fn name(bytes: &[u8]) -> Result<RelPath, String> {
    let mut plain = bytes;
    while let Some(rest) = plain.strip_prefix(b"./") {
        plain = rest;
    }
    while let Some(rest) = plain.strip_suffix(b"/") {
        plain = rest;
    }
    if bytes.starts_with(b"/") {
        return Err("names are relative to the source, and this one begins with /".into());
    }
    if plain.is_empty() || plain == b"." {
        return Ok(RelPath::root());
    }
    RelPath::new(plain).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &[u8], null: bool) -> Result<Vec<String>> {
        Ok(parse(list, null)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn names_end_with_newlines_or_nuls() {
        assert_eq!(parsed(b"a\n./b/c/\n\nd e", false).unwrap(), ["a", "b/c", "d e"]);
        assert_eq!(parsed(b"a\0b\nc\0", true).unwrap(), ["a", "b\\nc"]);
        assert_eq!(parsed(b"\xff\n", false).unwrap(), ["\\xff"]);
        assert_eq!(parsed(b"./\n.\n", false).unwrap(), [".", "."]);
    }

    #[test]
    fn what_leads_out_is_refused_by_line() {
        for (list, why) in
            [(&b"a\n../b\n"[..], "line 2"), (b"/etc\n", "begins with /"), (b"a//b\n", "line 1"), (b"a\0b\n", "line 1")]
        {
            let text = parsed(list, false).unwrap_err().to_string();
            assert!(text.contains(why), "{text}");
        }
        let long = vec![b'x'; 10_000];
        assert!(parsed(&long, false).unwrap_err().to_string().contains("--null"));
    }

    #[test]
    fn an_empty_list_is_not_everything() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        std::fs::write(&path, "\n\n").unwrap();
        assert!(read(&path, false).unwrap_err().to_string().contains("names nothing"));
        assert!(format!("{:#}", read(&dir.path().join("none"), false).unwrap_err()).contains("No such file"));
    }
}
