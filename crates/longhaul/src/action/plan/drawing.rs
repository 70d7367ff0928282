//! What pictures have in common.

use std::fmt::{Arguments, Write};

/// Colours of classes, told apart also by who sees fewer of them (Okabe and Ito 2008).
pub(super) const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];

/// A line more.
pub(super) fn line(svg: &mut String, text: Arguments<'_>) {
    writeln!(svg, "{text}").expect("text can be added to text");
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
