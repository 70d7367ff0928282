//! Ports of one capacity with their reservations `[port, rate, start, end]`, asked what is free of a port at a moment
//! (`available_at`: `[port, moment, rate]`) and over a window (`available_over`: `[port, start, end, rate]`); and further cases,
//! each of one port with reservations `[start, end, rate]` or of several in a row (`hops`), asked what is free over `query`.

use std::collections::BTreeMap;

use serde_json::Value;
use units::Moment;

use super::decimal::Scale;
use super::{AnswerError, holder, refused};
use crate::book::{Book, Take};
use crate::calendar::{CAPACITY_MAX, Calendar};
use crate::graph::{Edge, EdgeId, Graph};
use crate::slots::{Ends, Slots};

/// Whether a file is of this kind.
pub(super) fn is_kind(file: &Value) -> bool {
    ["available_at", "available_over", "extra"].iter().any(|key| file.get(key).is_some())
}

/// Fills the answers in.
pub(super) fn fill(file: &mut Value) -> Result<(), AnswerError> {
    let scale = Scale::of(file)?;
    let capacity = file.get("capacity").and_then(|capacity| scale.read(capacity, CAPACITY_MAX));
    let capacity = capacity.ok_or_else(|| refused("`capacity` is no rate: write `\"capacity\": 100`".to_owned()))?;
    let ports = ports(file, capacity, scale)?;
    let free = Calendar::new(capacity);
    let port = |name: &str| ports.get(name).unwrap_or(&free);
    for row in rows_mut(file, "available_at") {
        let asked = match row.as_array().map(Vec::as_slice) {
            Some([name, moment, ..]) => name.as_str().zip(scale.moment(moment)),
            _ => None,
        };
        let (name, moment) = asked.ok_or_else(|| wrong("available_at", row, "[\"A1\", 110, 90]"))?;
        let free = port(name).free_at(moment);
        answer_row(row, 2, scale.write(free));
    }
    for row in rows_mut(file, "available_over") {
        let asked = match row.as_array().map(Vec::as_slice) {
            Some([name, start, end, ..]) => name.as_str().zip(scale.window(start, end)),
            _ => None,
        };
        let (name, window) = asked.ok_or_else(|| wrong("available_over", row, "[\"A1\", 0, 400, 40]"))?;
        let free = port(name).free(window);
        answer_row(row, 3, scale.write(free));
    }
    for case in rows_mut(file, "extra") {
        let free = extra(case, capacity, scale)?;
        case.as_object_mut()
            .ok_or_else(|| refused("`extra` has an entry that is no object".to_owned()))?
            .insert("free".to_owned(), scale.write(free));
    }
    Ok(())
}

/// The ports that have reservations.
fn ports(file: &Value, capacity: u64, scale: Scale) -> Result<BTreeMap<String, Calendar>, AnswerError> {
    let mut ports = BTreeMap::new();
    for row in file.get("reservations").and_then(Value::as_array).into_iter().flatten() {
        let wrong = || wrong("reservations", row, "[\"A1\", 10, 100, 250]");
        let Some([name, rate, start, end]) = row.as_array().map(Vec::as_slice) else { return Err(wrong()) };
        let name = name.as_str().ok_or_else(wrong)?;
        let rate = scale.read(rate, CAPACITY_MAX).ok_or_else(wrong)?;
        let window = scale.window(start, end).ok_or_else(wrong)?;
        let port = ports.entry(name.to_owned()).or_insert_with(|| Calendar::new(capacity));
        port.take(window, rate).map_err(|out| refused(format!("{row} in `reservations`: {out}")))?;
    }
    Ok(ports)
}

/// What is free along all hops of a further case.
fn extra(case: &Value, capacity: u64, scale: Scale) -> Result<u64, AnswerError> {
    let query = case.get("query").and_then(Value::as_array).map(Vec::as_slice);
    let window = match query {
        Some([start, end]) => scale.window(start, end),
        _ => None,
    };
    let window = window.ok_or_else(|| wrong("extra", case, "{\"resv\": [[0, 10, 60]], \"query\": [0, 20]}"))?;
    let mut hops: Vec<(u64, &[Value])> = Vec::new();
    if let Some(rows) = case.get("resv").and_then(Value::as_array) {
        hops.push((capacity, rows));
    }
    for hop in case.get("hops").and_then(Value::as_array).into_iter().flatten() {
        let wrong = || wrong("hops", hop, "[400, [[0, 100, 300]]]");
        let Some([capacity, rows]) = hop.as_array().map(Vec::as_slice) else { return Err(wrong()) };
        let capacity = scale.read(capacity, CAPACITY_MAX).ok_or_else(wrong)?;
        hops.push((capacity, rows.as_array().ok_or_else(wrong)?));
    }
    let ends = Ends::new(0, hops.len())
        .ok_or_else(|| wrong("extra", case, "{\"resv\": [[0, 10, 60]], \"query\": [0, 20]}"))?;
    let mut book = Book::new(row_of(&hops));
    for (resource, (_, rows)) in hops.iter().enumerate() {
        for row in *rows {
            let take = take(resource, row, scale).ok_or_else(|| wrong("resv", row, "[0, 10, 60]"))?;
            book.impose(holder(), vec![take], Moment::MIN)
                .map_err(|error| refused(format!("{row} in `extra`: {error}")))?;
        }
    }
    Ok(Slots::of(book.view()).highest(ends, window).map_or(0, |highest| highest.rate.get()))
}

/// Nodes in a row, with an edge for each hop.
fn row_of(hops: &[(u64, &[Value])]) -> Graph {
    let mut graph = Graph::default();
    for node in 0..=hops.len() {
        graph.add_node(&node.to_string(), true);
    }
    for (from, (capacity, _)) in hops.iter().enumerate() {
        let name = format!("hop {}", from + 1);
        graph.add_edge(Edge { name, from, to: from + 1, cost: 1, delay: 0, capacity: *capacity, risks: Vec::new() });
    }
    graph
}

fn take(resource: EdgeId, row: &Value, scale: Scale) -> Option<Take> {
    let [start, end, rate] = row.as_array()?.as_slice() else { return None };
    Some(Take { resource, window: scale.window(start, end)?, rate: scale.read(rate, CAPACITY_MAX)? })
}

fn rows_mut<'a>(file: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    file.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Puts the answer at its place, or after what is asked.
fn answer_row(row: &mut Value, place: usize, answer: Value) {
    if let Some(row) = row.as_array_mut() {
        row.truncate(place);
        row.push(answer);
    }
}

fn wrong(key: &str, row: &Value, example: &str) -> AnswerError {
    refused(format!("{row} in `{key}` cannot be read: write `{example}`, with the end after the start"))
}
