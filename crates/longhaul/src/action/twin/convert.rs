//! `twin convert`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use model::network::Format;

use crate::action::network;
use crate::exit::usage;
use crate::output::{note, print};

pub(super) fn run(from: &Path, to: &Path) -> Result<()> {
    let name = to.to_string_lossy();
    let format = Format::of(&name).ok_or_else(|| {
        usage(format!("{name}: its name says no format: end it in .toml, .clab.yml, .graphml or .json"))
    })?;
    let exported = network::read(from, Path::new(""))?.export(format);
    let mut file = OpenOptions::new().write(true).create_new(true).open(to).map_err(|error| {
        let hint =
            if error.kind() == std::io::ErrorKind::AlreadyExists { ": remove it, or give another name" } else { "" };
        usage(format!("cannot make {name}: {error}{hint}"))
    })?;
    file.write_all(exported.text.as_bytes())?;
    exported.notes.iter().for_each(|text| note(&format!("{name}: {text}")));
    print(format!("{name} is written\n"))
}
