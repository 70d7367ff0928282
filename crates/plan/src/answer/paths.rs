//! Groups of directed edges `[from, to, cost]`, each with its question: `k3` from `src` to `dst`, the three cheapest paths. Groups
//! that name no ends ask from `S` to `T` for the `disjoint_pair` of paths that share no link, and its `total` cost; both are
//! `null` where there is none.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::decimal::Scale;
use super::{AnswerError, refused};
use crate::graph::{EDGES_MAX, Edge, Graph, NodeId, WEIGHT_MAX};
use crate::paths::{Apart, Path, Paths};

/// Edges of a group.
const EDGES: &str = "edges";

/// Whether a file is of this kind.
pub(super) fn is_kind(file: &Value) -> bool {
    file.as_object().is_some_and(|groups| groups.values().any(|group| group.get(EDGES).is_some()))
}

/// Fills the answers in.
pub(super) fn fill(file: &mut Value) -> Result<(), AnswerError> {
    let scale = Scale::of(file)?;
    let groups = file.as_object_mut().into_iter().flatten().filter(|(_, group)| group.get(EDGES).is_some());
    for (name, group) in groups {
        // It has a key: it is an object.
        let Some(group) = group.as_object_mut() else { continue };
        fill_group(group, scale).map_err(|AnswerError(problem)| refused(format!("`{name}`: {problem}")))?;
    }
    Ok(())
}

fn fill_group(group: &mut Map<String, Value>, scale: Scale) -> Result<(), AnswerError> {
    let asked = Asked::read(group, scale)?;
    let paths = Paths::of(&asked.graph);
    if group.contains_key("src") || group.contains_key("k3") {
        let towards = paths.towards(asked.to);
        let k3 = towards.k_shortest(asked.from).take(3);
        let k3: Vec<Value> = k3.map(|path| json!([scale.write(path.cost), asked.names(&path)])).collect();
        group.insert("k3".to_owned(), k3.into());
    }
    if !group.contains_key("src") || group.contains_key("disjoint_pair") {
        let pair = paths.pair(asked.from, asked.to, Apart::Links).filter(|pair| pair.shared.is_apart(Apart::Links));
        let total = pair.as_ref().map(|pair| scale.write(pair.paths.iter().map(|path| path.cost).sum()));
        let names = pair.map(|pair| pair.paths.iter().map(|path| asked.names(path)).collect());
        group.insert("disjoint_pair".to_owned(), names.unwrap_or(Value::Null));
        group.insert("total".to_owned(), total.unwrap_or(Value::Null));
    }
    Ok(())
}

/// A group as it is asked about.
struct Asked {
    graph: Graph,
    from: NodeId,
    to: NodeId,
}

impl Asked {
    fn read(group: &Map<String, Value>, scale: Scale) -> Result<Asked, AnswerError> {
        let edges = group[EDGES].as_array().ok_or_else(|| refused("`edges` is no list".to_owned()))?;
        if edges.len() > EDGES_MAX {
            return Err(refused(format!("more than {EDGES_MAX} edges: make the group smaller")));
        }
        let mut graph = Graph::default();
        let mut nodes = BTreeMap::new();
        for edge in edges {
            let (from, to, cost) = read_edge(edge, scale)
                .ok_or_else(|| refused(format!("{edge} is no edge: write `[\"A\", \"B\", 1]`, from, to and cost")))?;
            let [from, to] =
                [from, to].map(|name| *nodes.entry(name.to_owned()).or_insert_with(|| graph.add_node(name, true)));
            let name = format!("{}→{}", graph.names()[from], graph.names()[to]);
            graph.add_edge(Edge { name, from, to, cost, delay: 0, capacity: u64::MAX, risks: Vec::new() });
        }
        let end = |key: &str, otherwise: &str| {
            let name = group.get(key).map_or(Some(otherwise), Value::as_str);
            let node = name.and_then(|name| nodes.get(name));
            node.copied().ok_or_else(|| refused(format!("`{key}` is no node of an edge: name one")))
        };
        let (from, to) = (end("src", "S")?, end("dst", "T")?);
        Ok(Asked { graph, from, to })
    }

    /// The nodes of a path.
    fn names(&self, path: &Path) -> Value {
        path.nodes(&self.graph).into_iter().map(|node| self.graph.names()[node].as_str()).collect()
    }
}

fn read_edge(edge: &Value, scale: Scale) -> Option<(&str, &str, u64)> {
    let [from, to, cost] = edge.as_array()?.as_slice() else { return None };
    Some((from.as_str()?, to.as_str()?, scale.read(cost, WEIGHT_MAX)?))
}
