//! TopoHub's JSON: node-link form of NetworkX, with `pos` (east, north) of nodes and `dist` (km) of links.
//!
//! What TopoHub has no name for is in an object `longhaul` of nodes and links.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::build::Builder;
use super::error::{Fault, quoted, thing};
use super::exchange::{self, Exported, Foreign, Imported, Nodes, Notes};
use super::labels::{Labels, PREFIX, labels_of};
use super::{Network, NetworkError, NodeKind, fibre, limits};

/// The object of Longhaul's own keys.
const OWN: &str = "longhaul";

impl Network {
    /// Reads node-link JSON as in TopoHub. Nodes are routers if nothing else is said; `dist` is the length of the fibre.
    ///
    /// # Errors
    /// The first thing in the file that is not as it should be, with its line and the way out.
    pub fn from_topohub(text: &str, file_name: &str) -> Result<Imported, NetworkError> {
        let error = |line, problem| NetworkError::new(file_name, line, Fault::from(problem));
        if text.len() > limits::TEXT_MAX {
            return Err(error(None, format!("longer than {} MiB", limits::TEXT_MAX >> 20)));
        }
        let root: Value = serde_json::from_str(text).map_err(|e| error(Some(e.line()), format!("no JSON: {e}")))?;
        let lines = Lines::of(text);
        Reader { file: file_name, lines, notes: Notes::default(), unread: BTreeSet::new(), off_globe: 0 }.network(&root)
    }

    /// Writes node-link JSON as in TopoHub; [`Network::from_topohub`] reads the same nodes and links from it.
    #[must_use]
    pub fn to_topohub(&self) -> Exported {
        let nodes = self.nodes.iter().map(|node| {
            let mut own = Map::from_iter([("kind".to_owned(), json!(exchange::kind_text(node.kind)))]);
            let mut object = Map::from_iter([("id".to_owned(), json!(node.name))]);
            if let Some(site) = node.site.map(|site| &self.sites[site]) {
                own.insert("site".to_owned(), json!(site.name));
                object.extend(site.position.map(|(north, east)| ("pos".to_owned(), json!([east, north]))));
            }
            object.insert(OWN.to_owned(), Value::Object(own));
            Value::Object(object)
        });
        let links = self.links.iter().map(|link| {
            let labels = labels_of(link).into_iter();
            let own = labels.map(|(key, value)| (key[PREFIX.len()..].to_owned(), json!(value)));
            let name = ("name".to_owned(), json!(link.name));
            // Said even if it is zero: without it the length or the great circle would stand in.
            let delay = link.forward.delay.is_zero().then(|| ("delay".to_owned(), json!("0s")));
            let own: Map<String, Value> = own.chain([name]).chain(delay).collect();
            let [source, target] = [link.from, link.to].map(|node| &self.nodes[node].name);
            let km = link.forward.delay.as_nanos() as f64 / fibre::FIBRE_NS_PER_KM;
            json!({ "source": source, "target": target, "dist": (km * 100.0).round() / 100.0, OWN: own })
        });
        let pairs = |link: &super::Link| (link.from.min(link.to), link.from.max(link.to));
        let parallel = self.links.iter().map(pairs).collect::<BTreeSet<_>>().len() < self.links.len();
        let root = json!({
            "directed": false,
            "multigraph": parallel,
            "graph": { "name": self.name },
            "nodes": nodes.collect::<Vec<_>>(),
            "links": links.collect::<Vec<_>>(),
        });
        Exported { text: format!("{root:#}\n"), notes: self.unsaid("TopoHub's JSON") }
    }
}

/// Where the lines of a text begin.
struct Lines<'a> {
    text: &'a str,
    begins: Vec<usize>,
}

/// A part of a text by keys, each as it is written there; of a key that is there twice the last one.
type Parts<'a> = BTreeMap<String, &'a RawValue>;

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Lines<'a> {
        let begins = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines { text, begins: [0].into_iter().chain(begins).collect() }
    }

    /// The line, from 1, on which a part of the text begins.
    fn line(&self, part: &RawValue) -> usize {
        // Parts are pieces of the text itself.
        let at = part.get().as_ptr() as usize - self.text.as_ptr() as usize;
        self.begins.partition_point(|begin| *begin <= at)
    }
}

struct Reader<'a> {
    file: &'a str,
    lines: Lines<'a>,
    notes: Notes,
    /// Keys of nodes and links that mean nothing here.
    unread: BTreeSet<String>,
    /// Nodes whose place is none in degrees.
    off_globe: usize,
}

impl<'a> Reader<'a> {
    fn network(mut self, root: &Value) -> Result<Imported, NetworkError> {
        let parts: Parts<'a> = serde_json::from_str(self.lines.text).unwrap_or_default();
        let list = |keys: &[&str]| {
            keys.iter().find_map(|key| serde_json::from_str::<Vec<&'a RawValue>>(parts.get(*key)?.get()).ok())
        };
        let missing = || self.error(None, "`nodes` or `links` is missing: is this a graph in node-link form?");
        let nodes = list(&["nodes"]).ok_or_else(missing)?;
        let links = list(&["links", "edges"]).ok_or_else(missing)?;
        let stem = self.file.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
        let wanted =
            root.pointer("/graph/name").and_then(Value::as_str).filter(|name| !name.is_empty()).unwrap_or(stem);
        let name = exchange::Names::default().give(wanted);
        self.notes.renamed("network", wanted, &name);
        let mut builder = Builder::new(&name, None).map_err(|problem| self.error(None, problem))?;
        if root.get("directed") == Some(&Value::Bool(true)) {
            self.notes.add("links are directed: each has both directions here".to_owned());
        }

        let mut known = Nodes::default();
        for node in nodes {
            self.node(&mut builder, &mut known, node)?;
        }
        if self.off_globe > 0 {
            self.notes.add(format!("the places of {} nodes are left out: they are not in degrees", self.off_globe));
        }
        let mut names = exchange::Names::default();
        for link in links {
            self.link(&mut builder, &known, &mut names, link)?;
        }
        if let Some(graph) = root.get("graph").and_then(Value::as_object) {
            self.unread.extend(graph.keys().filter(|key| *key != "name").map(|key| quoted(key)));
        }
        if !self.unread.is_empty() {
            let keys = std::mem::take(&mut self.unread).into_iter().collect::<Vec<_>>().join(", ");
            self.notes.add(format!("left out is what the file says of {keys}"));
        }
        let line = parts.get("nodes").map(|nodes| self.lines.line(nodes));
        let network = builder.finish().map_err(|_| self.error_at(line, None, "no node in `nodes`"))?;
        if !network.nodes.iter().any(|node| node.kind == NodeKind::Host) {
            self.notes.add("there is no host, only routers: add `[[host]]` and links to them".to_owned());
        }
        Ok(Imported { network, notes: self.notes.finish() })
    }

    /// Of the file as a whole.
    fn error(&self, thing: Option<String>, problem: impl Into<String>) -> NetworkError {
        self.error_at(None, thing, problem)
    }

    fn error_at(&self, line: Option<usize>, thing: Option<String>, problem: impl Into<String>) -> NetworkError {
        NetworkError::new(self.file, line, Fault { thing, problem: problem.into() })
    }

    fn see(&mut self, of: &Value, known: &[&str]) {
        let keys = of.as_object().into_iter().flat_map(Map::keys);
        self.unread.extend(keys.filter(|key| !known.contains(&key.as_str())).map(|key| quoted(key)));
    }

    fn node(&mut self, builder: &mut Builder, nodes: &mut Nodes, raw: &'a RawValue) -> Result<(), NetworkError> {
        let (node, line) = self.part(raw);
        self.see(&node, &["id", "name", "pos", OWN]);
        let error = |reader: &Self, thing, problem: String| reader.error_at(Some(line), thing, problem);
        let no_id = || error(self, None, "a node has no `id`".to_owned());
        let id = node.get("id").and_then(scalar).ok_or_else(no_id)?;
        let label = node.get("name").and_then(scalar).unwrap_or_else(|| id.clone());
        let own = |key: &str| node.get(OWN).and_then(|own| own.get(key)).and_then(scalar);
        let kind = own("kind").map_or(Ok(NodeKind::Router), |kind| exchange::kind(&kind));
        let kind = kind.map_err(|problem| error(self, Some(thing("node", &id)), problem))?;
        let degrees = |at: usize| node.get("pos").and_then(|pos| pos.get(at)).and_then(Value::as_f64);
        let position = exchange::position(degrees(1), degrees(0));
        if node.get("pos").is_some() && position.is_none() {
            self.off_globe += 1;
        }
        let site = own("site");
        let foreign = Foreign { id: &id, label: &label, kind, site: site.as_deref(), position };
        let added = nodes.add(builder, &foreign, &mut self.notes);
        added.map_err(|problem| error(self, Some(thing("node", &id)), problem))
    }

    fn link(
        &mut self,
        builder: &mut Builder,
        nodes: &Nodes,
        names: &mut exchange::Names,
        raw: &'a RawValue,
    ) -> Result<(), NetworkError> {
        let (link, line) = self.part(raw);
        self.see(&link, &["source", "target", "dist", "key", OWN]);
        let end = |key: &str| {
            let id = link.get(key).and_then(scalar).unwrap_or_default();
            let unknown = |problem| self.error_at(Some(line), Some("a link".to_owned()), format!("{key}: {problem}"));
            nodes.find(&id).map_err(unknown)
        };
        let ends = [end("source")?, end("target")?];
        if ends[0] == ends[1] {
            let node = thing("node", builder.node_name(ends[0]));
            self.notes.add(format!("a link from {node} to itself is left out"));
            return Ok(());
        }
        let mut labels = self.labels(raw)?;
        let name = exchange::name_link(builder, names, &mut labels, ends, &mut self.notes);
        match link.get("dist").and_then(Value::as_f64) {
            Some(km) => labels.suppose("distance", "delay", format!("{km} km")),
            None if ends.iter().all(|node| builder.position(*node).is_ok()) => {
                labels.suppose("distance", "delay", "great-circle".to_owned());
            }
            None => self.notes.add(format!("{} has no delay: no length and no places", thing("link", &name))),
        }
        labels.read(builder, self.file, Some(line), &name, ends)
    }

    /// Longhaul's own keys of a link, each with its line.
    fn labels(&self, link: &'a RawValue) -> Result<Labels, NetworkError> {
        let own = parts(link).get(OWN).map(|own| parts(own)).unwrap_or_default();
        let mut labels = Labels::default();
        for (key, raw) in own {
            let (value, line) = self.part(raw);
            let no_text = || {
                let problem = format!("`{OWN}.{}` is no text", quoted(&key));
                self.error_at(Some(line), Some("a link".to_owned()), problem)
            };
            labels.take(&format!("{PREFIX}{key}"), &scalar(&value).ok_or_else(no_text)?, Some(line));
        }
        Ok(labels)
    }

    /// What a part of the text says, and its line.
    fn part(&self, raw: &'a RawValue) -> (Value, usize) {
        // The text as a whole has been read: it is JSON to the last part.
        (serde_json::from_str(raw.get()).unwrap_or_default(), self.lines.line(raw))
    }
}

/// The parts of an object; none of anything else.
fn parts(raw: &RawValue) -> Parts<'_> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// Texts, numbers and truth as text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}
