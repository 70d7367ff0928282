//! Tables for people.

/// Rows below each other, the first of them the heads. Columns are as wide as they must be; those named `right` end alike.
pub(in crate::action) fn table<const N: usize>(rows: &[[String; N]], right: [bool; N]) -> Vec<String> {
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(wide);
    let line = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(widths)
            .zip(right)
            .map(|((cell, width), right)| if right { format!("{cell:>width$}") } else { format!("{cell:width$}") });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Words on lines of at most `columns`, each line begun with `indent`; a word alone may be longer.
pub(in crate::action) fn wrapped<'a>(words: impl Iterator<Item = &'a str>, indent: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => *line += &format!(" {word}"),
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

#[test]
fn words_are_wrapped() {
    let text = wrapped("a → b → c → d".split(' '), "  ", 9);
    assert_eq!(text, "  a → b →\n  c → d");
    assert_eq!(wrapped(std::iter::empty(), "  ", 9), "");
}
