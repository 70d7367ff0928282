//! Completions and manual pages, made from the command line's own description.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::{ENVIRONMENT_HELP, command};
use crate::exit;
use crate::output::print;

/// Prints the completions of a shell.
///
/// # Errors
/// When standard output cannot be written.
pub(super) fn completions(shell: Shell) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "longhaul", &mut script);
    print(script)?;
    Ok(exit::DONE)
}

/// Writes one page for each command into a directory.
///
/// # Errors
/// When a page cannot be written.
pub(super) fn man(dir: &Path) -> Result<u8> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (name, page) in pages()? {
        let path = dir.join(format!("{name}.1"));
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(exit::DONE)
}

/// The pages by name: `longhaul`, `longhaul-copy`, `longhaul-session-set` and so on.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut root = command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    collect(&root, "longhaul", &mut pages)?;
    Ok(pages)
}

fn collect(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        collect(inner, &format!("{name}-{}", inner.get_name()), pages)?;
    }
    pages.push((name.to_owned(), page(command.clone(), name)?));
    Ok(())
}

fn page(command: Command, name: &str) -> Result<Vec<u8>> {
    let title = name.to_uppercase();
    let (synopsis, notes) = (synopsis(&command), notes(&command));
    let has_commands = command.get_subcommands().any(|inner| !inner.is_hide_set());
    let man = Man::new(command).title(title).manual("Longhaul");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.extend(synopsis);
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    page.extend(notes);
    page.extend(preformatted("ENVIRONMENT", ENVIRONMENT_HELP.trim_start_matches("Environment:\n")));
    exit_status(&mut page)?;
    Ok(page)
}

/// The usage line of the help text; the generator's own names every option.
fn synopsis(command: &Command) -> Vec<u8> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).text([roman(usage)]);
    roff.render().into_bytes()
}

/// What stands below the options, its lines as they are.
fn notes(command: &Command) -> Vec<u8> {
    command.get_after_help().map(|text| preformatted("NOTES", &text.to_string())).unwrap_or_default()
}

fn preformatted(title: &str, text: &str) -> Vec<u8> {
    let mut roff = Roff::new();
    roff.control("SH", [title]).control("nf", []).text([roman(text)]).control("fi", []);
    roff.render().into_bytes()
}

fn exit_status(page: &mut impl Write) -> Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in exit::TABLE {
        roff.control("TP", []).text([bold(code.to_string())]).text([roman(*meaning)]);
    }
    Ok(roff.to_writer(page)?)
}

#[test]
fn every_command_has_a_page() {
    let pages = pages().unwrap();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for name in [
        "longhaul",
        "longhaul-copy",
        "longhaul-serve",
        "longhaul-session-set",
        "longhaul-test-throughput",
        "longhaul-token-new",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for (name, page) in &pages {
        let text = String::from_utf8_lossy(page);
        assert!(text.contains("EXIT STATUS") && text.contains(&name.to_uppercase()), "{name}");
    }
}
