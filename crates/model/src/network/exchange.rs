//! What formats of others have in common: names that do not fit, and things that cannot be said.

use std::collections::BTreeMap;

use super::build::Builder;
use super::error::{NetworkError, quoted, thing};
use super::labels::Labels;
use super::limits::NAME_MAX;
use super::toml::LinkEnds;
use super::{Network, NodeKind};

/// A network that was read, and what the format says that a network cannot.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The network.
    pub network: Network,
    /// What was left out or changed, a sentence each, for the user.
    pub notes: Vec<String>,
}

/// A network as a text of another format, and what that cannot say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The text of the file.
    pub text: String,
    /// What was left out or has to be added, a sentence each, for the user.
    pub notes: Vec<String>,
}

/// A format of network descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Longhaul's own: `NAME.toml`.
    Toml,
    /// containerlab: `NAME.clab.yml`, `NAME.clab.yaml`.
    Containerlab,
    /// GraphML as in the Topology Zoo: `NAME.graphml`.
    GraphMl,
    /// Node-link JSON as in TopoHub: `NAME.json`.
    TopoHub,
}

impl Format {
    /// The format that a file of this name has; `None` for other endings.
    #[must_use]
    pub fn of(file_name: &str) -> Option<Format> {
        let name = file_name.to_ascii_lowercase();
        let ends = |ending: &[&str]| ending.iter().any(|ending| name.ends_with(ending));
        match () {
            () if ends(&[".toml"]) => Some(Format::Toml),
            () if ends(&[".clab.yml", ".clab.yaml"]) => Some(Format::Containerlab),
            () if ends(&[".graphml"]) => Some(Format::GraphMl),
            () if ends(&[".json"]) => Some(Format::TopoHub),
            () => None,
        }
    }
}

impl Network {
    /// Reads a description in the format.
    ///
    /// # Errors
    /// The first thing in the file that is not as it should be, with its line and the way out.
    pub fn import(format: Format, text: &str, file_name: &str) -> Result<Imported, NetworkError> {
        match format {
            Format::Toml => Ok(Imported { network: Network::from_toml(text, file_name)?, notes: Vec::new() }),
            Format::Containerlab => Network::from_containerlab(text, file_name),
            Format::GraphMl => Network::from_graphml(text, file_name),
            Format::TopoHub => Network::from_topohub(text, file_name),
        }
    }

    /// Writes the description in the format.
    #[must_use]
    pub fn export(&self, format: Format) -> Exported {
        match format {
            Format::Toml => Exported { text: self.to_toml(), notes: Vec::new() },
            Format::Containerlab => self.to_containerlab(),
            Format::GraphMl => self.to_graphml(),
            Format::TopoHub => self.to_topohub(),
        }
    }

    /// Notes about what no format of others can say.
    pub(super) fn unsaid(&self, format: &str) -> Vec<String> {
        let paths = self.paths.len();
        let about = self.about.as_ref().map(|_| format!("`about` is left out: {format} has no place for it"));
        let paths = (paths > 0).then(|| format!("{paths} named paths are left out: {format} has no place for them"));
        let unused = |site: &usize| !self.nodes.iter().any(|node| node.site == Some(*site));
        let sites = (0..self.sites.len()).filter(unused).count();
        let sites =
            (sites > 0).then(|| format!("{sites} sites without a node are left out: {format} has no place for them"));
        about.into_iter().chain(paths).chain(sites).collect()
    }
}

/// Makes names that fit out of names of others, each once.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Each name that was given, with the number that the next of that name gets.
    given: BTreeMap<String, u32>,
}

impl Names {
    /// `wanted`, made to fit: other characters become `-`, and what was given before gets a number.
    pub(super) fn give(&mut self, wanted: &str) -> String {
        let fits = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
        let mut name = String::new();
        for c in wanted.trim().chars().map(fits) {
            if c != '-' || !name.ends_with('-') {
                name.push(c);
            }
        }
        let name = name.trim_start_matches(['-', '_', '.']).trim_end_matches('-');
        let name = if name.is_empty() { "n" } else { &name[..name.len().min(NAME_MAX)] };
        let mut fresh = name.to_owned();
        while self.given.contains_key(&fresh) {
            let next = self.given.get_mut(name).map_or(2, |next| {
                *next += 1;
                *next
            });
            let number = format!("-{next}");
            fresh = format!("{}{number}", &name[..name.len().min(NAME_MAX - number.len())]);
        }
        self.given.insert(fresh.clone(), 1);
        fresh
    }
}

/// Notes for the user, the first [`NOTES_MAX`] of them.
#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: Vec<String>,
    more: usize,
}

/// Notes of one import; a file with so many is of another kind.
const NOTES_MAX: usize = 100;

impl Notes {
    pub(super) fn add(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        } else {
            self.more += 1;
        }
    }

    /// Tells that a name had to be changed.
    pub(super) fn renamed(&mut self, kind: &str, was: &str, is: &str) {
        if was != is {
            self.add(format!(
                "{} is called `{is}`: names are letters, digits, `_`, `.` and `-`, each once",
                thing(kind, was)
            ));
        }
    }

    pub(super) fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.notes.push(format!("{} more like these", self.more));
        }
        self.notes
    }
}

/// What a label says that a node is.
pub(super) fn kind(label: &str) -> Result<NodeKind, String> {
    match label {
        "host" => Ok(NodeKind::Host),
        "router" => Ok(NodeKind::Router),
        other => Err(format!("`{}` is no kind of node: write `host` or `router`", quoted(other))),
    }
}

pub(super) fn kind_text(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Host => "host",
        NodeKind::Router => "router",
    }
}

/// The name of a link: what its label says, or made of its ends.
pub(super) fn name_link(
    builder: &Builder,
    names: &mut Names,
    labels: &mut Labels,
    ends: LinkEnds,
    notes: &mut Notes,
) -> String {
    match labels.remove("name") {
        Some(said) => {
            let name = names.give(&said);
            notes.renamed("link", &said, &name);
            name
        }
        None => names.give(&name_of_ends(builder, ends)),
    }
}

fn name_of_ends(builder: &Builder, [from, to]: LinkEnds) -> String {
    let [from, to] = [builder.node_name(from), builder.node_name(to)];
    let half = (NAME_MAX - 1) / 2;
    // Both ends are to be seen in it, so the longer is cut first.
    let from_len = from.len().min(NAME_MAX - 1 - to.len().min(half));
    let to_len = to.len().min(NAME_MAX - 1 - from_len);
    format!("{}-{}", &from[..from_len], &to[..to_len])
}

/// The nodes of a file of another format, by what they are called there.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    names: Names,
    sites: BTreeMap<String, usize>,
    called: BTreeMap<String, usize>,
}

/// A node as another format describes it.
#[derive(Debug)]
pub(super) struct Foreign<'a> {
    /// What links call it.
    pub(super) id: &'a str,
    /// What people call it.
    pub(super) label: &'a str,
    pub(super) kind: NodeKind,
    /// The name of its site, if it has one.
    pub(super) site: Option<&'a str>,
    /// Degrees north and east.
    pub(super) position: Option<(f64, f64)>,
}

impl Nodes {
    /// Adds a node, and its site with the first node that has it.
    pub(super) fn add(&mut self, builder: &mut Builder, node: &Foreign<'_>, notes: &mut Notes) -> Result<(), String> {
        if self.called.contains_key(node.id) {
            return Err("another node has that name: call one of them otherwise".to_owned());
        }
        let name = self.names.give(node.label);
        notes.renamed("node", node.label, &name);
        let site = match (node.site, node.position) {
            (None, None) => None,
            (site, position) => {
                let site = site.unwrap_or(&name);
                Some(match self.sites.get(site) {
                    Some(known) => *known,
                    None => builder.add_site(site, position)?,
                })
            }
        };
        if let (Some(site_name), Some(site)) = (node.site.or(site.map(|_| name.as_str())), site) {
            self.sites.insert(site_name.to_owned(), site);
        }
        self.called.insert(node.id.to_owned(), builder.add_node(&name, node.kind, site)?);
        Ok(())
    }

    /// The node that links call so.
    pub(super) fn find(&self, id: &str) -> Result<usize, String> {
        let known = self.called.keys().map(String::as_str);
        self.called.get(id).copied().ok_or_else(|| super::Unknown::new("node", id, known).to_string())
    }
}

/// Latitude and longitude, if both are there and on the globe.
pub(super) fn position(latitude: Option<f64>, longitude: Option<f64>) -> Option<(f64, f64)> {
    latitude.zip(longitude).filter(|(north, east)| north.abs() <= 90.0 && east.abs() <= 180.0)
}
