//! Files of questions, beside the answers that came with them.

use plan::answer::answer;
use serde_json::{Value, json};

/// The file without what is to be found out.
fn without(file: &Value, keys: &[&str]) -> String {
    let mut asked = file.clone();
    for group in asked.as_object_mut().unwrap().values_mut() {
        keys.iter().for_each(|key| drop(group.as_object_mut().unwrap().remove(*key)));
    }
    asked.to_string()
}

#[test]
fn paths() {
    let file: Value = serde_json::from_str(include_str!("vectors/paths.json")).unwrap();
    let answers = ["k3", "disjoint_pair", "total"];
    assert_eq!(answer(&without(&file, &answers)).unwrap(), file);
    let mut wrong = file.clone();
    wrong["yen"]["k3"] = json!("anything");
    assert_eq!(answer(&wrong.to_string()).unwrap(), file, "answers in the file are ignored");
}

#[test]
fn decimals_come_back_as_decimals() {
    let file = json!({ "g": { "src": "a", "dst": "c", "edges": [["a", "b", 0.1], ["b", "c", 0.2], ["a", "c", 1]] } });
    let answered = answer(&file.to_string()).unwrap();
    assert_eq!(answered["g"]["k3"], json!([[0.3, ["a", "b", "c"]], [1, ["a", "c"]]]));
}

#[test]
fn what_cannot_be_answered_is_told() {
    for (text, says) in [
        ("", "no JSON"),
        ("{}", "no file of questions"),
        (r#"{"g": {"edges": 3}}"#, "`g`: `edges` is no list"),
        (r#"{"g": {"edges": [["S", "T"]]}}"#, "is no edge: write"),
        (r#"{"g": {"edges": [["S", "T", -1]]}}"#, "is no edge: write"),
        (r#"{"g": {"edges": [["a", "T", 1]]}}"#, "`src` is no node"),
        (r#"{"g": {"edges": [["S", "T", 1e-20]]}}"#, "20 decimals"),
    ] {
        let error = answer(text).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{text}: {error}");
    }
}
