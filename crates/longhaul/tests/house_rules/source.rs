//! Just enough reading of Rust to tell code from comments and text.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::WORKSPACE;

pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// The file with comments and literals blanked out, line for line.
    pub(crate) code: String,
}

pub(crate) struct Token<'a> {
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

impl Source {
    pub(crate) fn read(path: &Path) -> Source {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Source::new(path, text)
    }

    pub(crate) fn new(path: &Path, text: String) -> Source {
        Source { path: path.to_owned(), code: blank_non_code(&text) }
    }

    pub(crate) fn breach(&self, line: usize, what: &str) -> String {
        let shown = self.path.strip_prefix(&WORKSPACE.root).unwrap_or(&self.path);
        format!("{}:{line}: {what}", shown.display())
    }

    /// Words, `::`, and single other characters.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Token<'_>> {
        self.code.lines().zip(1..).flat_map(|(code, line)| {
            let mut left = code.trim_start();
            std::iter::from_fn(move || {
                let first = left.chars().next()?;
                let length = if is_word_char(first) {
                    left.find(|c| !is_word_char(c)).unwrap_or(left.len())
                } else if left.starts_with("::") {
                    2
                } else {
                    first.len_utf8()
                };
                let (text, rest) = left.split_at(length);
                left = rest.trim_start();
                Some(Token { line, text })
            })
        })
    }

    /// Every path with the line it ends on; `use a::{b, c::d}` gives `a::b` and `a::c::d`.
    pub(crate) fn paths(&self) -> Vec<(usize, Vec<&str>)> {
        let mut found = Vec::new();
        // What each open brace stands behind: the path of a `use` group, nothing for a block.
        let mut groups: Vec<Vec<&str>> = Vec::new();
        let mut path: Vec<&str> = Vec::new();
        let mut joined = false;
        for token in self.tokens() {
            let goes_on = match token.text {
                "::" => true,
                "{" => joined,
                text => is_word(text) && joined,
            };
            if !goes_on && !path.is_empty() {
                found.push((token.line, std::mem::take(&mut path)));
            }
            match token.text {
                "{" => groups.push(std::mem::take(&mut path)),
                "}" => drop(groups.pop()),
                word if is_word(word) => {
                    if path.is_empty() {
                        path.extend(groups.last().into_iter().flatten());
                    }
                    path.push(word);
                }
                _ => {}
            }
            joined = token.text == "::";
        }
        found.extend((!path.is_empty()).then(|| (self.code.lines().count(), path)));
        found
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(is_word_char)
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn blank_non_code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut left = text;
    while let Some(first) = left.chars().next() {
        let after_word = code.ends_with(is_word_char);
        match non_code(left, after_word) {
            Some(length) => {
                let (blanked, rest) = left.split_at(length);
                code.extend(blanked.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
                left = rest;
            }
            None => {
                code.push(first);
                left = &left[first.len_utf8()..];
            }
        }
    }
    code
}

/// The length of the comment or literal that `text` begins with, if it does.
fn non_code(text: &str, after_word: bool) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    if text.starts_with('\'') {
        return char_literal(text);
    }
    let marks = text.find(|c| !"bcr".contains(c)).filter(|marks| !after_word && *marks <= 2).unwrap_or(0);
    let body = text[marks..].trim_start_matches('#');
    let hashes = text.len() - marks - body.len();
    match (body.starts_with('"'), text[..marks].ends_with('r')) {
        (true, true) => {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = marks + hashes + 1;
            Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()))
        }
        (true, false) if hashes == 0 => Some(marks + escaped(&text[marks..], '"')),
        _ => None,
    }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let step = match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (1, 2),
            [b'*', b'/', ..] => (-1, 2),
            _ => (0, 1),
        };
        (depth, at) = (depth + step.0, at + step.1);
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a character literal; a lifetime is none.
fn char_literal(text: &str) -> Option<usize> {
    let mut inside = text.chars().skip(1);
    match inside.next()? {
        '\\' => Some(escaped(text, '\'')),
        first if inside.next() == Some('\'') => Some(2 + first.len_utf8()),
        _ => None,
    }
}

/// The length of a literal between two `quote`s, where a backslash takes the next character along.
fn escaped(text: &str, quote: char) -> usize {
    let mut skip = false;
    for (at, c) in text.char_indices().skip(1) {
        if !skip && c == quote {
            return at + c.len_utf8();
        }
        skip = !skip && c == '\\';
    }
    text.len()
}

#[test]
fn comments_and_text_are_not_code() {
    let source = r##"a /* b /* c */ d */ 'e' "f \" g" r#"h " i"# 'j: k // l
        m b"n" '\'' '"' o br"p\" q r"s" t'"##;
    let code = Source::new(Path::new("text.rs"), source.to_owned());
    let words: Vec<&str> = code.tokens().map(|token| token.text).filter(|text| is_word(text)).collect();
    assert_eq!(words, ["a", "j", "k", "m", "o", "q", "t"]);
}
