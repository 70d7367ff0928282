//! Directed links `[from, to, capacity]` with their reservations `[link, start, end, rate]`, and queries: `all_slots` for all
//! starts and the first, with `fixed` also for one window; `highest` for the highest rate in a window.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use serde_json::{Map, Value, json};
use units::{Moment, Window};

use super::decimal::Scale;
use super::{AnswerError, holder, refused};
use crate::book::{Book, Take};
use crate::calendar::CAPACITY_MAX;
use crate::graph::{EDGES_MAX, Edge, Graph, NodeId};
use crate::slots::{Ends, Slots};

/// Whether a file is of this kind.
pub(super) fn is_kind(file: &Value) -> bool {
    file.get("links").is_some() && file.get("queries").is_some()
}

/// Fills the answers in.
pub(super) fn fill(file: &mut Value) -> Result<(), AnswerError> {
    let scale = Scale::of(file)?;
    let (graph, nodes) = links(&file["links"], scale)?;
    let mut book = Book::new(graph);
    reserve(&mut book, file.get("reservations"), scale)?;
    let asked = Asked { slots: Slots::of(book.view()), nodes, scale };
    let queries = file["queries"].as_array_mut().ok_or_else(|| refused("`queries` is no list".to_owned()))?;
    for (n, query) in queries.iter_mut().enumerate() {
        let query = query.as_object_mut().ok_or_else(|| refused(format!("queries[{n}] is no object")))?;
        asked.fill(query).map_err(|AnswerError(problem)| refused(format!("queries[{n}]: {problem}")))?;
    }
    Ok(())
}

fn links(links: &Value, scale: Scale) -> Result<(Graph, BTreeMap<String, NodeId>), AnswerError> {
    let links = links.as_array().ok_or_else(|| refused("`links` is no list".to_owned()))?;
    if links.len() > EDGES_MAX {
        return Err(refused(format!("more than {EDGES_MAX} links: make the file smaller")));
    }
    let mut graph = Graph::default();
    let mut nodes = BTreeMap::new();
    for (n, link) in links.iter().enumerate() {
        let wrong =
            || refused(format!("{link} in `links` cannot be read: write `[\"A\", \"B\", 100]`, from, to, capacity"));
        let Some([from, to, capacity]) = link.as_array().map(Vec::as_slice) else { return Err(wrong()) };
        let (from, to) = from.as_str().zip(to.as_str()).ok_or_else(wrong)?;
        let capacity = scale.read(capacity, CAPACITY_MAX).ok_or_else(wrong)?;
        let [from, to] =
            [from, to].map(|name| *nodes.entry(name.to_owned()).or_insert_with(|| graph.add_node(name, true)));
        graph.add_edge(Edge { name: format!("link {n}"), from, to, cost: 1, delay: 0, capacity, risks: Vec::new() });
    }
    Ok((graph, nodes))
}

fn reserve(book: &mut Book, reservations: Option<&Value>, scale: Scale) -> Result<(), AnswerError> {
    let links = book.view().graph().edges().len();
    for row in reservations.and_then(Value::as_array).into_iter().flatten() {
        let wrong = || {
            refused(format!("{row} in `reservations` cannot be read: write `[0, 10, 30, 60]`, link, start, end, rate"))
        };
        let Some([link, start, end, rate]) = row.as_array().map(Vec::as_slice) else { return Err(wrong()) };
        // The number of a link counts: it is not scaled.
        let link = link.as_u64().and_then(|link| usize::try_from(link).ok()).filter(|link| *link < links);
        let resource = link.ok_or_else(|| {
            refused(format!("{row} in `reservations`: there are links 0 to {}", links.saturating_sub(1)))
        })?;
        let window = scale.window(start, end).ok_or_else(wrong)?;
        let rate = scale.read(rate, CAPACITY_MAX).ok_or_else(wrong)?;
        if rate > 0 {
            let take = Take { resource, window, rate };
            book.impose(holder(), vec![take], Moment::MIN)
                .map_err(|error| refused(format!("{row} in `reservations`: {error}")))?;
        }
    }
    Ok(())
}

/// What is asked, of which network.
struct Asked<'a> {
    slots: Slots<'a>,
    nodes: BTreeMap<String, NodeId>,
    scale: Scale,
}

impl Asked<'_> {
    fn fill(&self, query: &mut Map<String, Value>) -> Result<(), AnswerError> {
        let ends = self.ends(query)?;
        match query.get("kind").and_then(Value::as_str) {
            Some("all_slots") => self.all_slots(query, ends),
            Some("highest") => {
                let window = self.window(query)?;
                query.insert("bw".to_owned(), self.highest(ends, window));
                Ok(())
            }
            _ => Err(refused("`kind` is not known: write \"all_slots\" or \"highest\"".to_owned())),
        }
    }

    fn all_slots(&self, query: &mut Map<String, Value>, ends: Option<Ends>) -> Result<(), AnswerError> {
        let above_0 = |key: &str| {
            let number =
                query.get(key).and_then(|value| self.scale.read(value, CAPACITY_MAX)).and_then(NonZeroU64::new);
            number.ok_or_else(|| refused(format!("`{key}` is no number above 0")))
        };
        let (rate, nanos) = (above_0("bw")?, above_0("dur")?);
        let moment = |key: &str| {
            let moment = query.get(key).and_then(|value| self.scale.moment(value));
            moment.ok_or_else(|| refused(format!("`{key}` is no moment: write a number")))
        };
        // A horizon that is not after `t0` leaves no window, and nothing fits.
        let asked = ends.zip(Window::new(moment("t0")?, moment("horizon")?));
        let starts = asked.map(|(ends, within)| self.slots.all(ends, rate, nanos, within)).unwrap_or_default();
        let first = asked.and_then(|(ends, within)| self.slots.first(ends, rate, nanos, within));
        let moment = |moment: Moment| self.scale.write_moment(moment);
        let pairs = starts.intervals().iter().map(|(first, last)| json!([moment(*first), moment(*last)]));
        query.insert("starts".to_owned(), pairs.collect());
        query.insert("first".to_owned(), first.map_or(Value::Null, |slot| moment(slot.window.start())));
        let mut beside = Vec::new();
        if let Some(fixed) = query.get_mut("fixed").and_then(Value::as_object_mut) {
            let window = self.window(fixed).map_err(|AnswerError(problem)| refused(format!("`fixed`: {problem}")))?;
            let feasible = ends.is_some_and(|ends| self.slots.fixed(ends, rate, window).is_some());
            let answers = [("feasible", Value::from(feasible)), ("highest", self.highest(ends, window))];
            for (key, answer) in answers {
                fixed.insert(key.to_owned(), answer.clone());
                // The query is answered with them too, for readers who look for answers there.
                beside.push((key.to_owned(), answer));
            }
        }
        query.extend(beside);
        Ok(())
    }

    fn highest(&self, ends: Option<Ends>, window: Window) -> Value {
        let highest = ends.and_then(|ends| self.slots.highest(ends, window));
        self.scale.write(highest.map_or(0, |highest| highest.rate.get()))
    }

    /// `None` if one of the two is the end of no link: nothing leads there, and nothing fits.
    fn ends(&self, query: &Map<String, Value>) -> Result<Option<Ends>, AnswerError> {
        let name = |key: &str| {
            let name = query.get(key).and_then(Value::as_str);
            name.ok_or_else(|| refused(format!("`{key}` is no name of a node: write \"A\"")))
        };
        let (from, to) = (name("src")?, name("dst")?);
        if from == to {
            return Err(refused("`src` and `dst` are one node: name two".to_owned()));
        }
        let ends = self.nodes.get(from).zip(self.nodes.get(to));
        Ok(ends.and_then(|(from, to)| Ends::new(*from, *to)))
    }

    fn window(&self, query: &Map<String, Value>) -> Result<Window, AnswerError> {
        let window = query.get("start").zip(query.get("end")).and_then(|(start, end)| self.scale.window(start, end));
        window.ok_or_else(|| refused("`start` and `end` are no window: the end is after the start".to_owned()))
    }
}
