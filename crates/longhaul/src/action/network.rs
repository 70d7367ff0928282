//! Networks from files, in the format that the file's name says.

use std::path::Path;

use anyhow::Result;
use model::network::{Format, Network, shipped};

use crate::exit::usage;
use crate::output::note;

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
