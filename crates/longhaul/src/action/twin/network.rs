//! Networks from files and to files, in the format that the file's name says.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use model::network::{Format, Network, shipped};

use crate::exit::usage;
use crate::output::{note, print};

/// Reads a network that comes with the program, or a file; a relative path begins at `beside`. Notes go to standard error.
pub(super) fn read(path: &Path, beside: &Path) -> Result<Network> {
    let name = path.to_string_lossy();
    if let Some((name, text)) = shipped().iter().find(|(shipped, _)| *shipped == name) {
        return Ok(Network::from_toml(text, &format!("{name}.toml"))?);
    }
    let path = beside.join(path);
    let name = path.to_string_lossy();
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let names: Vec<&str> = shipped().iter().map(|(name, _)| *name).collect();
        usage(format!("cannot read {name}: {error}; it is neither a file nor one of: {}", names.join(", ")))
    })?;
    let format = Format::of(&name).unwrap_or(Format::Toml);
    let imported = Network::import(format, &text, &name).map_err(|error| usage(error.to_string()))?;
    imported.notes.iter().for_each(|text| note(&format!("{name}: {text}")));
    Ok(imported.network)
}

/// `twin convert`.
pub(super) fn convert(from: &Path, to: &Path) -> Result<()> {
    let name = to.to_string_lossy();
    let format = Format::of(&name).ok_or_else(|| {
        usage(format!("{name}: its name says no format: end it in .toml, .clab.yml, .graphml or .json"))
    })?;
    let exported = read(from, Path::new(""))?.export(format);
    let mut file = OpenOptions::new().write(true).create_new(true).open(to).map_err(|error| {
        let hint =
            if error.kind() == std::io::ErrorKind::AlreadyExists { ": remove it, or give another name" } else { "" };
        usage(format!("cannot make {name}: {error}{hint}"))
    })?;
    file.write_all(exported.text.as_bytes())?;
    exported.notes.iter().for_each(|text| note(&format!("{name}: {text}")));
    print(format!("{name} is written\n"))
}
