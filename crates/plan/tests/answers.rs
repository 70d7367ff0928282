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
fn slots() {
    let file: Value = serde_json::from_str(include_str!("vectors/usn_small.json")).unwrap();
    let mut asked = file.clone();
    for query in asked["queries"].as_array_mut().unwrap() {
        let query = query.as_object_mut().unwrap();
        let answers: &[&str] = if query["kind"] == "highest" { &["bw"] } else { &["starts", "first"] };
        answers.iter().for_each(|answer| drop(query.remove(*answer).unwrap()));
    }
    assert_eq!(answer(&asked.to_string()).unwrap(), file);
}

#[test]
fn shares() {
    let file: Value = serde_json::from_str(include_str!("vectors/maxmin.json")).unwrap();
    let mut asked = file.clone();
    for case in asked["cases"].as_array_mut().unwrap() {
        ["rates", "alloc", "bottlenecks"].iter().for_each(|key| drop(case.as_object_mut().unwrap().remove(*key)));
    }
    let mut answered = answer(&asked.to_string()).unwrap();
    // The file has three decimals of what never ends.
    let three = |value: &mut Value| {
        if let Some(number) = value.as_f64().filter(|number| number.fract() != 0.0) {
            *value = json!((number * 1e3).round() / 1e3);
        }
    };
    let b4 = answered["cases"].as_array_mut().unwrap().last_mut().unwrap();
    b4["alloc"].as_object_mut().unwrap().values_mut().flat_map(|row| row.as_array_mut().unwrap()).for_each(three);
    b4["bottlenecks"].as_array_mut().unwrap().iter_mut().for_each(|row| three(&mut row[1]));
    assert_eq!(answered, file);
}

#[test]
fn what_is_no_share_is_refused() {
    let ask =
        |rest: Value| answer(&json!({"cases": [{"name": "x", "links": {"a": 1.5}, "flows": {"f": rest}}]}).to_string());
    let half = ask(json!([1, 0.25, ["a"]])).unwrap();
    assert_eq!(half["cases"][0]["rates"], json!({"f": 0.25}));
    assert_eq!(ask(json!([0, null, ["a"]])).unwrap()["cases"][0]["rates"], json!({"f": 0}), "who weighs nothing");
    for (flow, says) in [
        (json!([1, null]), "`x`: `f` is no [weight, cap, links]"),
        (json!([1, null, []]), "write its links"),
        (json!([1, null, ["b"]]), "`f`: no link \"b\""),
        (json!(["1", null, ["a"]]), "write a weight"),
        (json!([1, -1, ["a"]]), "write a cap"),
    ] {
        let error = ask(flow).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let group =
        |curve: &str| json!({"cases": [{"links": {"a": 9}, "groups": {"g": {"curve": curve, "tunnels": [["a"]]}}}]});
    for wrong in ["", "min(s)", "min(10s,15", "3", "0s", "-2s", "min(s,s)"] {
        let error = answer(&group(wrong).to_string()).unwrap_err().to_string();
        assert!(error.contains("case 0: `g`: `curve` is no sum of terms"), "{wrong}: {error}");
    }
    assert_eq!(answer(&group(" 0.5s + min( 2 s , 3 ) ").to_string()).unwrap()["cases"][0]["alloc"], json!({"g": [9]}));
}

#[test]
fn calendars() {
    let file: Value = serde_json::from_str(include_str!("vectors/calendar.json")).unwrap();
    let mut asked = file.clone();
    asked["available_at"].as_array_mut().unwrap().iter_mut().for_each(|row| row[2] = json!("?"));
    asked["available_over"].as_array_mut().unwrap().iter_mut().for_each(|row| drop(row.as_array_mut().unwrap().pop()));
    asked["extra"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|case| drop(case.as_object_mut().unwrap().remove("free")));
    assert_eq!(answer(&asked.to_string()).unwrap(), file);
}

#[test]
fn a_query_may_carry_a_fixed_slot_and_what_does_not_fit_has_an_answer() {
    let file = json!({
        "links": [["S", "T", 0.5]], "reservations": [[0, 0.25, 1, 0.5]],
        "queries": [
            { "kind": "all_slots", "src": "S", "dst": "T", "bw": 0.1, "dur": 0.25, "t0": -1, "horizon": 2.5,
              "fixed": { "start": 0, "end": 0.25 } },
            { "kind": "all_slots", "src": "S", "dst": "T", "bw": 0.6, "dur": 1, "t0": 0, "horizon": 9,
              "fixed": { "start": 0, "end": 1 } },
            { "kind": "all_slots", "src": "T", "dst": "S", "bw": 0.1, "dur": 1, "t0": 3, "horizon": 3 },
            { "kind": "highest", "src": "T", "dst": "S", "start": 0, "end": 1 },
        ],
    });
    let answered = answer(&file.to_string()).unwrap();
    assert_eq!(answered["queries"][0]["starts"], json!([[-1, 0], [1, 2.25]]));
    assert_eq!(answered["queries"][0]["first"], json!(-1));
    assert_eq!(answered["queries"][0]["fixed"], json!({ "start": 0, "end": 0.25, "feasible": true, "highest": 0.5 }));
    assert_eq!(answered["queries"][1]["fixed"], json!({ "start": 0, "end": 1, "feasible": false, "highest": 0 }));
    for none in [1, 2] {
        assert_eq!(
            (&answered["queries"][none]["starts"], &answered["queries"][none]["first"]),
            (&json!([]), &Value::Null)
        );
    }
    assert_eq!(answered["queries"][3]["bw"], json!(0));
    assert_eq!((&answered["queries"][0]["feasible"], &answered["queries"][0]["highest"]), (&json!(true), &json!(0.5)));
}

#[test]
fn nothing_leads_to_a_node_without_links() {
    let fixed = json!({ "start": 0, "end": 1 });
    let all = json!({ "kind": "all_slots", "src": "S", "dst": "X", "bw": 1, "dur": 1, "t0": 0, "horizon": 9, "fixed": fixed });
    let highest = json!({ "kind": "highest", "src": "X", "dst": "T", "start": 0, "end": 1 });
    let answered = answer(&json!({ "links": [["S", "T", 10]], "queries": [all, highest] }).to_string()).unwrap();
    let [all, highest] = [&answered["queries"][0], &answered["queries"][1]];
    assert_eq!((&all["starts"], &all["first"]), (&json!([]), &Value::Null));
    assert_eq!((&all["fixed"]["feasible"], &all["fixed"]["highest"]), (&json!(false), &json!(0)));
    assert_eq!(highest["bw"], json!(0));
}

#[test]
fn what_is_asked_wrongly_is_refused_at_the_door() {
    let file = json!({
        "links": [["S", "T", 10]],
        "queries": [{ "kind": "all_slots", "src": "S", "dst": "T", "bw": 1, "dur": 1, "t0": 0, "horizon": 9 }],
    });
    assert!(answer(&file.to_string()).is_ok());
    for (key, value, says) in [
        ("bw", json!(0), "queries[0]: `bw` is no number above 0"),
        ("dur", json!(0), "queries[0]: `dur` is no number above 0"),
        ("dst", json!("S"), "queries[0]: `src` and `dst` are one node"),
        ("dst", json!(7), "queries[0]: `dst` is no name of a node"),
        ("kind", json!("all"), "queries[0]: `kind` is not known"),
        ("fixed", json!({ "start": 1, "end": 1 }), "queries[0]: `fixed`: `start` and `end` are no window"),
    ] {
        let mut wrong = file.clone();
        wrong["queries"][0][key] = value;
        let error = answer(&wrong.to_string()).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
    for (key, value, says) in [
        ("links", json!([["S", "T"]]), "in `links` cannot be read"),
        ("reservations", json!([[1, 0, 9, 1]]), "there are links 0 to 0"),
        ("reservations", json!([[0, 9, 9, 1]]), "in `reservations` cannot be read"),
    ] {
        let mut wrong = file.clone();
        wrong[key] = value;
        let error = answer(&wrong.to_string()).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
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

#[test]
fn what_is_no_question_stays_to_the_last_bit() {
    let number = "6".to_owned() + &"9".repeat(125);
    let file = format!(r#"{{"trap": {{"edges": [["S", "T", 1]], "src": "S", "dst": "T", "total": {number}}}}}"#);
    let answered = answer(&file).unwrap();
    assert_eq!(answer(&answered.to_string()).unwrap(), answered);
}
