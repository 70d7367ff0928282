//! GraphML as the Topology Zoo writes it: attributes of nodes and edges are declared as `<key>` with a name.
//!
//! Read are of nodes `label`, `Latitude` and `Longitude`, of edges `LinkSpeedRaw`, `LinkSpeed` with `LinkSpeedUnits`, and
//! `LinkLabel` where it is a rate. What the Zoo has no name for is in attributes that begin with `longhaul.`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use roxmltree::{Document, Node as Xml};
use units::Rate;

use super::build::Builder;
use super::error::{Fault, quoted, thing};
use super::exchange::{self, Exported, Foreign, Imported, Nodes, Notes};
use super::labels::{Labels, PREFIX, labels_of};
use super::{Network, NetworkError, NodeKind, forms, limits};

const NAMESPACE: &str = "http://graphml.graphdrawing.org/xmlns";

impl Network {
    /// Reads GraphML as in the Topology Zoo. Nodes are routers if nothing else is said; a link takes the great circle if
    /// no delay is said and both ends have a place.
    ///
    /// # Errors
    /// The first thing in the file that is not as it should be, with its line and the way out.
    pub fn from_graphml(text: &str, file_name: &str) -> Result<Imported, NetworkError> {
        let error = |line, problem| NetworkError::new(file_name, line, Fault::from(problem));
        if text.len() > limits::TEXT_MAX {
            return Err(error(None, format!("longer than {} MiB", limits::TEXT_MAX >> 20)));
        }
        let document = Document::parse(text).map_err(|e| error(Some(e.pos().row as usize), format!("no XML: {e}")))?;
        let graph =
            document.descendants().find(|node| node.has_tag_name((NAMESPACE, "graph")) || node.has_tag_name("graph"));
        let graph = graph.ok_or_else(|| error(None, "no `<graph>`: is this GraphML?".to_owned()))?;
        let keys = document.descendants().filter(|node| node.tag_name().name() == "key");
        let keys = keys.filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?))).collect();
        Reader { file: file_name, document: &document, keys, notes: Notes::default() }.network(graph)
    }

    /// Writes GraphML with the names of the Topology Zoo; [`Network::from_graphml`] reads the same nodes and links from it.
    #[must_use]
    pub fn to_graphml(&self) -> Exported {
        let mut graph = Writer::default();
        graph.data("graph", "label", &self.name);
        for (index, node) in self.nodes.iter().enumerate() {
            graph.open(format!("<node id=\"{index}\">"));
            graph.data("node", "label", &node.name);
            graph.data("node", &format!("{PREFIX}kind"), exchange::kind_text(node.kind));
            if let Some(site) = node.site.map(|site| &self.sites[site]) {
                graph.data("node", &format!("{PREFIX}site"), &site.name);
                if let Some((latitude, longitude)) = site.position {
                    graph.data("node", "Latitude", &format!("{latitude:?}"));
                    graph.data("node", "Longitude", &format!("{longitude:?}"));
                }
            }
            graph.close("node");
        }
        for link in &self.links {
            graph.open(format!("<edge source=\"{}\" target=\"{}\">", link.from, link.to));
            graph.data("edge", &format!("{PREFIX}name"), &link.name);
            if let Some(rate) = link.forward.rate {
                graph.data("edge", "LinkLabel", &rate.to_string());
                graph.data("edge", "LinkSpeedRaw", &format!("{:?}", rate.bps() as f64));
            }
            // The great circle stands in where no delay is said, so none is said too.
            if link.forward.delay.is_zero() {
                graph.data("edge", &format!("{PREFIX}delay"), "0s");
            }
            for (key, value) in labels_of(link) {
                graph.data("edge", &key, &value);
            }
            graph.close("edge");
        }
        Exported { text: graph.finish(), notes: self.unsaid("GraphML") }
    }
}

/// What a graph says, and the attributes that it uses.
#[derive(Default)]
struct Writer {
    body: String,
    keys: BTreeMap<(String, String), usize>,
}

impl Writer {
    fn open(&mut self, tag: String) {
        writeln!(self.body, "    {tag}").expect("a string takes everything");
    }

    fn close(&mut self, tag: &str) {
        writeln!(self.body, "    </{tag}>").expect("a string takes everything");
    }

    fn data(&mut self, of: &str, name: &str, value: &str) {
        let next = self.keys.len();
        let key = *self.keys.entry((of.to_owned(), name.to_owned())).or_insert(next);
        let indent = if of == "graph" { 4 } else { 6 };
        writeln!(self.body, "{:indent$}<data key=\"d{key}\">{}</data>", "", escaped(value))
            .expect("a string takes everything");
    }

    fn finish(self) -> String {
        let mut text = format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<graphml xmlns=\"{NAMESPACE}\">\n");
        for ((of, name), key) in &self.keys {
            let kind =
                if ["Latitude", "Longitude", "LinkSpeedRaw"].contains(&name.as_str()) { "double" } else { "string" };
            let name = escaped(name);
            writeln!(text, "  <key attr.name=\"{name}\" attr.type=\"{kind}\" for=\"{of}\" id=\"d{key}\"/>")
                .expect("a string takes everything");
        }
        text + "  <graph edgedefault=\"undirected\">\n" + &self.body + "  </graph>\n</graphml>\n"
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

struct Reader<'a, 'input> {
    file: &'a str,
    document: &'a Document<'input>,
    /// Names of attributes by the keys that stand for them.
    keys: BTreeMap<&'a str, &'a str>,
    notes: Notes,
}

impl<'a> Reader<'a, '_> {
    fn network(mut self, graph: Xml<'a, '_>) -> Result<Imported, NetworkError> {
        let about = self.data(graph);
        let wanted = NETWORK_READ.iter().find_map(|key| about.get(key)).copied();
        let stem = self.file.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
        let wanted = wanted.filter(|name| !name.is_empty()).unwrap_or(stem);
        let name = exchange::Names::default().give(wanted);
        self.notes.renamed("network", wanted, &name);
        let mut builder = Builder::new(&name, None).map_err(|problem| self.error(graph, None, problem))?;
        if graph.attribute("edgedefault") == Some("directed") {
            self.notes.add("edges are directed: each is a link with both directions here".to_owned());
        }

        let mut nodes = Nodes::default();
        let mut unread: BTreeSet<&str> = about.keys().copied().filter(|key| !NETWORK_READ.contains(key)).collect();
        for node in graph.children().filter(|node| node.tag_name().name() == "node") {
            let data = self.data(node);
            self.node(&mut builder, &mut nodes, node, &data)?;
            unread.extend(data.keys().filter(|key| !NODE_READ.contains(key) && !key.starts_with(PREFIX)));
            if node.children().any(|child| child.tag_name().name() == "graph") {
                self.notes.add(format!("a graph within a node is left out ({})", self.place(node)));
            }
        }
        let mut names = exchange::Names::default();
        for edge in graph.children().filter(|node| node.tag_name().name() == "edge") {
            let data = self.data(edge);
            self.edge(&mut builder, &nodes, &mut names, edge, &data)?;
            unread.extend(data.keys().filter(|key| !EDGE_READ.contains(key) && !key.starts_with(PREFIX)));
        }
        if !unread.is_empty() {
            let keys = unread.into_iter().map(quoted).collect::<Vec<_>>().join(", ");
            self.notes.add(format!("left out is what the file says of {keys}"));
        }
        let network = builder.finish().map_err(|_| self.error(graph, None, "no `<node>` in the graph".to_owned()))?;
        if !network.nodes.iter().any(|node| node.kind == NodeKind::Host) {
            self.notes.add("there is no host, only routers: add `[[host]]` and links to them".to_owned());
        }
        Ok(Imported { network, notes: self.notes.finish() })
    }

    fn error(&self, at: Xml<'_, '_>, thing: Option<String>, problem: String) -> NetworkError {
        NetworkError::new(self.file, Some(self.line(at)), Fault { thing, problem })
    }

    fn line(&self, at: Xml<'_, '_>) -> usize {
        self.document.text_pos_at(at.range().start).row as usize
    }

    fn place(&self, at: Xml<'_, '_>) -> String {
        format!("line {}", self.line(at))
    }

    /// The attributes of a graph, node or edge by name.
    fn data(&self, of: Xml<'a, '_>) -> BTreeMap<&'a str, &'a str> {
        let data = of.children().filter(|child| child.tag_name().name() == "data");
        let named = data.filter_map(|data| Some((*self.keys.get(data.attribute("key")?)?, data.text()?.trim())));
        named.collect()
    }

    fn node(
        &mut self,
        builder: &mut Builder,
        nodes: &mut Nodes,
        node: Xml<'a, '_>,
        data: &BTreeMap<&'a str, &'a str>,
    ) -> Result<(), NetworkError> {
        let id = node.attribute("id").unwrap_or_default();
        let label = data.get("label").copied().filter(|label| !label.is_empty()).unwrap_or(id);
        let fault = |reader: &Self, problem| reader.error(node, Some(thing("node", label)), problem);
        let own = |key: &str| data.get(format!("{PREFIX}{key}").as_str()).copied();
        let kind = own("kind").map_or(Ok(NodeKind::Router), exchange::kind).map_err(|problem| fault(self, problem))?;
        let degrees = |key: &str| data.get(key).and_then(|degrees| degrees.parse::<f64>().ok());
        let position = exchange::position(degrees("Latitude"), degrees("Longitude"));
        let foreign = Foreign { id, label, kind, site: own("site"), position };
        nodes.add(builder, &foreign, &mut self.notes).map_err(|problem| fault(self, problem))
    }

    fn edge(
        &mut self,
        builder: &mut Builder,
        nodes: &Nodes,
        names: &mut exchange::Names,
        edge: Xml<'a, '_>,
        data: &BTreeMap<&'a str, &'a str>,
    ) -> Result<(), NetworkError> {
        let end = |key: &str| {
            let node = nodes.find(edge.attribute(key).unwrap_or_default());
            node.map_err(|problem| self.error(edge, Some("an edge".to_owned()), format!("{key}: {problem}")))
        };
        let ends = [end("source")?, end("target")?];
        if ends[0] == ends[1] {
            let node = thing("node", builder.node_name(ends[0]));
            self.notes.add(format!("an edge from {node} to itself is left out ({})", self.place(edge)));
            return Ok(());
        }
        let mut labels = Labels::default();
        for (key, value) in data {
            labels.take(key, value, None);
        }
        let name = exchange::name_link(builder, names, &mut labels, ends, &mut self.notes);
        match rate(data) {
            Some(Ok(rate)) => labels.suppose("rate", "rate", format!("{rate:#}")),
            Some(Err(said)) => {
                self.notes.add(format!("{} has no rate: `{}` is none", thing("link", &name), quoted(&said)));
            }
            None => {}
        }
        if ends.iter().all(|node| builder.position(*node).is_ok()) {
            labels.suppose("distance", "delay", "great-circle".to_owned());
        } else if data.keys().all(|key| !key.starts_with(PREFIX)) {
            self.notes.add(format!("{} has no delay: the place of an end is not known", thing("link", &name)));
        }
        labels.read(builder, self.file, Some(self.line(edge)), &name, ends)
    }
}

/// What the Zoo calls a network: `Geant2012` of `GEANT`.
const NETWORK_READ: &[&str] = &["label", "Network"];
const NODE_READ: &[&str] = &["label", "Latitude", "Longitude", "id"];
const EDGE_READ: &[&str] = &["LinkSpeedRaw", "LinkSpeed", "LinkSpeedUnits", "LinkLabel", "key"];

/// What the Zoo says of a link's rate: as a number, as a number and a prefix, or as people write it; what is none comes back.
fn rate(data: &BTreeMap<&str, &str>) -> Option<Result<Rate, String>> {
    let raw = data.get("LinkSpeedRaw").map(|raw| match raw.parse::<f64>() {
        Ok(bps) if (1.0..1e18).contains(&bps) => format!("{} b/s", bps.round() as u64),
        _ => (*raw).to_owned(),
    });
    let units = data.get("LinkSpeedUnits").copied().unwrap_or_default().replace('K', "k");
    let speed = || data.get("LinkSpeed").map(|speed| format!("{speed} {units}b/s"));
    let label = || data.get("LinkLabel").map(|label| (*label).to_owned());
    let said = raw.or_else(speed).or_else(label).filter(|said| !said.is_empty())?;
    Some(forms::rate(&said).ok().flatten().ok_or(said))
}
