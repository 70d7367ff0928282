//! containerlab's topology files (`*.clab.yml`): nodes and links, with what Longhaul knows of them in labels.
//!
//! Links are read in both of its forms: `endpoints: ["a:eth1", "b:eth1"]`, and `type: veth` with `node` and `interface`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use saphyr::{LoadableYamlNode, MarkedYaml, SafelyIndex, Scalar, YamlData};

use super::build::Builder;
use super::error::{Fault, quoted, thing};
use super::exchange::{self, Exported, Foreign, Imported, Nodes, Notes};
use super::labels::{Labels, PREFIX, labels_of};
use super::toml::quote;
use super::{Network, NetworkError, NodeKind, limits};

/// MTU of containerlab's links that name none (its `DefaultVethLinkMTU`).
const DEFAULT_MTU: u32 = 9500;
/// The type of a link between two nodes of the lab; all others lead out of it, or nowhere.
const VETH: &str = "veth";
/// Names in the place of a node that stand for something outside of the lab.
const OUTSIDE: &[&str] = &["host", "mgmt-net", "macvlan"];
/// The kind that runs plain Linux, and the one that a node has without a kind here.
const LINUX: &str = "linux";
/// What deeper YAML than this is, is no topology; deeper structures take stack.
const DEPTH_MAX: usize = 64;

impl Network {
    /// Reads containerlab's `*.clab.yml`; impairments are in labels that begin with `longhaul.`.
    ///
    /// # Errors
    /// The first thing in the file that is not as it should be, with its line and the way out.
    pub fn from_containerlab(text: &str, file_name: &str) -> Result<Imported, NetworkError> {
        let file = File { name: file_name };
        if text.len() > limits::TEXT_MAX || nests_too_deep(text) {
            return Err(file.error(None, None, "too large or nested too deep for a topology".to_owned()));
        }
        let documents = MarkedYaml::load_from_str(text)
            .map_err(|error| file.error(Some(error.marker().line()), None, error.info().to_owned()))?;
        let root = documents.first().ok_or_else(|| file.error(None, None, "the file is empty".to_owned()))?;
        Reader { file, notes: Notes::default(), nodes: Nodes::default(), degree: BTreeMap::new(), others: 0 }
            .network(root)
    }

    /// Writes containerlab's `*.clab.yml`; [`Network::from_containerlab`] reads the same nodes and links from it.
    #[must_use]
    pub fn to_containerlab(&self) -> Exported {
        let mut text = format!("name: {}\ntopology:\n  nodes:\n", quote(&self.name));
        let mut line = |indent: usize, line: String| {
            writeln!(text, "{:indent$}{line}", "").expect("a string takes everything");
        };
        for node in &self.nodes {
            line(4, format!("{}:", quote(&node.name)));
            line(6, format!("kind: {LINUX}"));
            line(6, "labels:".to_owned());
            line(8, format!("{PREFIX}kind: {}", exchange::kind_text(node.kind)));
            let Some(site) = node.site.map(|site| &self.sites[site]) else { continue };
            line(8, format!("{PREFIX}site: {}", quote(&site.name)));
            if let Some((latitude, longitude)) = site.position {
                line(8, format!("{PREFIX}latitude: \"{latitude:?}\""));
                line(8, format!("{PREFIX}longitude: \"{longitude:?}\""));
            }
        }
        if !self.links.is_empty() {
            line(2, "links:".to_owned());
        }
        let mut interfaces = vec![0_u32; self.nodes.len()];
        for link in &self.links {
            let mut endpoint = |node: usize| {
                interfaces[node] += 1;
                quote(&format!("{}:eth{}", self.nodes[node].name, interfaces[node]))
            };
            line(4, format!("- endpoints: [{}, {}]", endpoint(link.from), endpoint(link.to)));
            line(6, format!("mtu: {}", link.mtu));
            line(6, "labels:".to_owned());
            line(8, format!("{PREFIX}name: {}", quote(&link.name)));
            let mtu = format!("{PREFIX}mtu");
            for (key, value) in labels_of(link).into_iter().filter(|(key, _)| *key != mtu) {
                line(8, format!("{key}: {}", quote(&value)));
            }
        }
        let mut notes = self.unsaid("containerlab");
        notes.push("nodes have no image: add one to each before `containerlab deploy`".to_owned());
        Exported { text, notes }
    }
}

/// Whether brackets or indents nest deeper than any topology.
fn nests_too_deep(text: &str) -> bool {
    let mut open = 0_usize;
    let opens = text.bytes().any(|byte| {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open > DEPTH_MAX
    });
    let indents = |line: &str| {
        let indent = line.find(|c: char| !" -?:\t".contains(c)).unwrap_or(line.len());
        indent > 4 * DEPTH_MAX
    };
    opens || text.lines().any(indents)
}

#[derive(Clone, Copy)]
struct File<'a> {
    name: &'a str,
}

impl File<'_> {
    fn error(&self, line: Option<usize>, thing: Option<String>, problem: String) -> NetworkError {
        NetworkError::new(self.name, line, Fault { thing, problem })
    }

    fn at(&self, node: &MarkedYaml<'_>, thing: Option<&str>, problem: impl Into<String>) -> NetworkError {
        self.error(Some(line(node)), thing.map(str::to_owned), problem.into())
    }
}

struct Reader<'a> {
    file: File<'a>,
    notes: Notes,
    nodes: Nodes,
    /// Links of each node that was taken for a host by its kind, to tell where that is unlikely.
    degree: BTreeMap<usize, usize>,
    /// Labels that are not Longhaul's.
    others: usize,
}

impl Reader<'_> {
    fn network(mut self, root: &MarkedYaml<'_>) -> Result<Imported, NetworkError> {
        let name = root.get("name").and_then(text);
        let name = name.ok_or_else(|| self.file.at(root, None, "`name` is missing: write for example `name: pair`"))?;
        let topology = root.get("topology").ok_or_else(|| {
            self.file.at(root, None, "`topology` is missing: is this a topology file of containerlab?")
        })?;
        let fits = exchange::Names::default().give(&name);
        self.notes.renamed("network", &name, &fits);
        let mut builder = Builder::new(&fits, None).map_err(|problem| self.file.at(root, None, problem))?;
        self.left_out(root, &["name", "topology"], "the file");
        self.left_out(topology, &["nodes", "links", "defaults", "kinds"], "the topology");
        let default = topology.get("defaults").and_then(|defaults| defaults.get("kind")).and_then(text);

        let mut unread = BTreeSet::new();
        for (name, node) in entries(topology.get("nodes")) {
            self.node(&mut builder, name, node, default.as_deref(), &mut unread)?;
        }
        if !unread.is_empty() {
            let keys = unread.into_iter().collect::<Vec<_>>().join(", ");
            self.notes.add(format!("what nodes say of {keys} is left out: there are no containers here"));
        }
        let links = topology.get("links");
        let none = Vec::new();
        let items = match links.map(|links| &links.data) {
            Some(YamlData::Sequence(items)) => items,
            None | Some(YamlData::Value(Scalar::Null)) => &none,
            Some(_) => return Err(self.file.at(links.unwrap_or(topology), None, "links: write a list")),
        };
        let mut names = exchange::Names::default();
        for item in items {
            self.link(&mut builder, &mut names, item)?;
        }
        for (node, links) in std::mem::take(&mut self.degree).into_iter().filter(|(_, links)| *links > 1) {
            let name = thing("node", builder.node_name(node));
            self.notes.add(format!(
                "{name} is a host, as its kind is `{LINUX}`, and has {links} links: if it forwards, label it `{PREFIX}kind: router`"
            ));
        }
        if self.others > 0 {
            self.notes.add(format!("labels that do not begin with `{PREFIX}` are left out: {} of them", self.others));
        }
        let network = builder.finish().map_err(|problem| self.file.at(topology, None, problem))?;
        Ok(Imported { network, notes: self.notes.finish() })
    }

    /// Notes keys of `of` that are not among `known`.
    fn left_out(&mut self, of: &MarkedYaml<'_>, known: &[&str], what: &str) {
        let keys = entries(Some(of)).filter_map(|(key, _)| text(key)).filter(|key| !known.contains(&key.as_str()));
        let keys: Vec<String> = keys.map(|key| quoted(&key)).collect();
        if !keys.is_empty() {
            self.notes.add(format!("what {what} says of {} is left out", keys.join(", ")));
        }
    }

    fn node(
        &mut self,
        builder: &mut Builder,
        key: &MarkedYaml<'_>,
        node: &MarkedYaml<'_>,
        default: Option<&str>,
        unread: &mut BTreeSet<String>,
    ) -> Result<(), NetworkError> {
        let file = self.file;
        let id = text(key).ok_or_else(|| file.at(key, None, "the name of a node is no text: write it in quotes"))?;
        let called = thing("node", &id);
        let fault = |at: &MarkedYaml<'_>, problem: String| file.at(at, Some(&called), problem);
        for (key, _) in entries(Some(node)) {
            unread.extend(text(key).filter(|key| !["kind", "labels"].contains(&key.as_str())).map(|key| quoted(&key)));
        }
        let (mut site, mut degrees, mut kind) = (None, [None, None], None);
        for (key, value) in entries(node.get("labels")) {
            let (Some(label), Some(said)) = (text(key), text(value)) else { continue };
            let Some(own) = label.strip_prefix(PREFIX) else {
                self.others += 1;
                continue;
            };
            let number = |said: &str| {
                said.parse::<f64>().map_err(|_| fault(value, format!("{own}: write degrees, not `{}`", quoted(said))))
            };
            match own {
                "kind" => kind = Some(exchange::kind(&said).map_err(|problem| fault(value, problem))?),
                "site" => site = Some(said),
                "latitude" => degrees[0] = Some(number(&said)?),
                "longitude" => degrees[1] = Some(number(&said)?),
                _ => {
                    let known = "kind, site, latitude, longitude";
                    return Err(fault(key, format!("unknown label `{}`; a node's are {known}", quoted(&label))));
                }
            }
        }
        let of_kind = node.get("kind").and_then(text);
        let linux = of_kind.as_deref().or(default).unwrap_or(LINUX) == LINUX;
        let guessed = if linux { NodeKind::Host } else { NodeKind::Router };
        let position = match degrees {
            [Some(latitude), Some(longitude)] => Some((latitude, longitude)),
            [None, None] => None,
            _ => return Err(fault(key, format!("label both: `{PREFIX}latitude` and `{PREFIX}longitude`"))),
        };
        let foreign = Foreign { id: &id, label: &id, kind: kind.unwrap_or(guessed), site: site.as_deref(), position };
        self.nodes.add(builder, &foreign, &mut self.notes).map_err(|problem| fault(key, problem))?;
        if kind.is_none() && linux {
            self.degree.insert(self.nodes.find(&id).map_err(|problem| fault(key, problem))?, 0);
        }
        Ok(())
    }

    fn link(
        &mut self,
        builder: &mut Builder,
        names: &mut exchange::Names,
        item: &MarkedYaml<'_>,
    ) -> Result<(), NetworkError> {
        let line = line(item);
        if let Some(kind) = item.get("type").and_then(text).filter(|kind| kind != VETH) {
            let kind = quoted(&kind);
            self.notes
                .add(format!("the link on line {line} is left out: it is of type `{kind}`, not between two nodes"));
            return Ok(());
        }
        let ends = self.endpoints(item)?;
        if let Some(outside) = ends.iter().find(|end| OUTSIDE.contains(&end.as_str())) {
            self.notes.add(format!("the link on line {line} is left out: it leads out of the lab, to `{outside}`"));
            return Ok(());
        }
        if ends[0] == ends[1] {
            self.notes.add(format!("the link on line {line} is left out: both its ends are `{}`", quoted(&ends[0])));
            return Ok(());
        }
        self.left_out(item, &["type", "endpoints", "mtu", "labels"], &format!("the link on line {line}"));
        let mut nodes = [0, 0];
        for (node, end) in nodes.iter_mut().zip(&ends) {
            *node = self.nodes.find(end).map_err(|problem| self.file.at(item, Some("a link"), problem))?;
            self.degree.entry(*node).and_modify(|links| *links += 1);
        }
        let mut labels = Labels::default();
        for (key, value) in entries(item.get("labels")) {
            if let (Some(key_text), Some(said)) = (text(key), text(value)) {
                let own = labels.take(&key_text, &said, Some(self::line(value)));
                self.others += usize::from(!own);
            }
        }
        let mtu = item.get("mtu").and_then(text);
        labels.suppose("mtu", "mtu", mtu.unwrap_or_else(|| DEFAULT_MTU.to_string()));
        let name = exchange::name_link(builder, names, &mut labels, nodes, &mut self.notes);
        labels.read(builder, self.file.name, Some(line), &name, nodes)
    }

    /// The nodes that a link joins, as the file calls them.
    fn endpoints(&self, item: &MarkedYaml<'_>) -> Result<[String; 2], NetworkError> {
        let wrong = |problem: &str| {
            let problem = format!("endpoints: {problem}: write for example `[\"a:eth1\", \"b:eth1\"]`");
            self.file.at(item, Some("a link"), problem)
        };
        let Some(YamlData::Sequence(ends)) = item.get("endpoints").map(|ends| &ends.data) else {
            return Err(wrong("no list"));
        };
        let node = |end: &MarkedYaml<'_>| match text(end) {
            Some(brief) => brief.split_once(':').map(|(node, _)| node.to_owned()),
            None => end.get("node").and_then(text),
        };
        let ends: Option<Vec<String>> = ends.iter().map(node).collect();
        let ends = ends.ok_or_else(|| wrong("no node and interface"))?;
        ends.try_into().map_err(|_| wrong("not two"))
    }
}

/// The entries of a mapping; none of anything else.
fn entries<'a, 'i>(node: Option<&'a MarkedYaml<'i>>) -> impl Iterator<Item = (&'a MarkedYaml<'i>, &'a MarkedYaml<'i>)> {
    let mapping = match node.map(|node| &node.data) {
        Some(YamlData::Mapping(mapping)) => Some(mapping),
        _ => None,
    };
    mapping.into_iter().flatten()
}

/// Scalars as text.
fn text(node: &MarkedYaml<'_>) -> Option<String> {
    match &node.data {
        YamlData::Value(Scalar::String(text)) => Some(text.to_string()),
        YamlData::Value(Scalar::Integer(number)) => Some(number.to_string()),
        YamlData::Value(Scalar::FloatingPoint(number)) => Some(number.to_string()),
        YamlData::Value(Scalar::Boolean(flag)) => Some(flag.to_string()),
        _ => None,
    }
}

fn line(node: &MarkedYaml<'_>) -> usize {
    node.span.start.line()
}
