//! What is there, who may do it, and what is said to those who ask for something else.

use controller::http::openapi;
use controller::http::rights::Deed;
use controller::http::routes::{Media, ROUTES, Route};
use serde_json::{Value, json};

use crate::client::{Reply, ask, connect_as, soon};
use crate::golden;
use crate::world::{Site, TOKENS};

fn transfer() -> Value {
    json!({"sources": ["caltech:/data/run7"], "destination": "cern:/archive/", "class": "cms", "collaboration": "cms"})
}

/// A request that can be meant.
fn body(route: &Route) -> Value {
    match route.path.rsplit('/').next().unwrap() {
        "transfers" => transfer(),
        "{id}" => json!({"urgency": 3}),
        "{name}" => json!({"hosts": ["dtn1"]}),
        "{resource}" => json!({"rate_bps": 1, "for_seconds": 60, "why": "repair"}),
        "counters" => json!({"source": "snmp", "samples": [{"link": "ana:forward", "rate_bps": 5}]}),
        "tokens" if route.path.contains("agents") => json!({"host": "dtn1"}),
        "tokens" => json!({"name": "new", "role": "viewer"}),
        _ => json!({}),
    }
}

async fn send(site: &Site, route: &Route, token: Option<&str>) -> Reply {
    let path = route.path.replace("{id}", "t1").replace("{name}", "x").replace("{host}", "dtn1");
    let path = path.replace("{resource}", "ana:forward").replace("{kind}", "transfer");
    let mut asking = ask(route.method, &path);
    if let Some(token) = token {
        asking = asking.token(token);
    }
    match route.takes {
        Some(Media::Json) => asking = asking.json(&body(route)),
        Some(Media::Toml) => asking = asking.field("Content-Type", "application/toml").bytes(b"# TOML\n".to_vec()),
        None => {}
    }
    asking.of(site.address).await
}

#[tokio::test]
async fn every_route_is_there_for_just_those_who_may_use_it() {
    let site = Site::new(|_| {});
    let submitted = ask("POST", "/api/v1/transfers").token("cms").json(&transfer()).of(site.address).await;
    assert_eq!((submitted.status, submitted.json()), (201, json!({"id": "t1"})));
    let mut table = format!("{:<6} {:<34} {:<8}{}\n", "", "", "nobody", TOKENS.map(|t| format!("{t:<9}")).concat());
    for route in ROUTES.iter().filter(|route| !route.gives.contains("event-stream")) {
        let mut line = format!("{:<6} {:<34} ", route.method, route.path);
        for token in [None].into_iter().chain(TOKENS.map(Some)) {
            let reply = send(&site, route, token).await;
            // 404 by the app is the answer to somebody who may ask.
            let may = !matches!(reply.status, 401 | 403);
            let known = may
                && (reply.status == route.status
                    || reply.json()["detail"].as_str().is_some_and(|d| !d.contains("path")));
            assert!(known || !may, "{} {} {token:?}: {reply:?}", route.method, route.path);
            assert_eq!(reply.status == 401, !may && token.is_none(), "{reply:?}");
            line += &format!("{:<9}", if may { "yes" } else { "-" });
        }
        table += &format!("{}\n", line.trim_end());
    }
    golden("rights.txt", &table);
}

#[test]
fn each_role_may_do_what_those_before_it_may() {
    use api::rest::RoleWord::{Admin, Operator, Submitter, Viewer};
    for deed in Deed::ALL {
        let may = [Viewer, Submitter, Operator, Admin].map(|role| deed.allows(role));
        assert!(may.is_sorted() && may[3], "{deed:?}");
        assert!(ROUTES.iter().any(|route| route.deed == Some(deed)), "{deed:?} is for no route");
    }
}

#[test]
fn the_document_of_the_routes_is_as_it_was() {
    let document = openapi::document();
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    let mut names: Vec<&str> = Vec::new();
    for operations in document["paths"].as_object().unwrap().values() {
        names.extend(operations.as_object().unwrap().values().map(|one| one["operationId"].as_str().unwrap()));
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), count), (ROUTES.len(), ROUTES.len()), "each route once, by a name of its own");
    for reference in text.split("\"$ref\": \"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(reference).is_some(), "{reference} leads nowhere");
    }
    golden("openapi.json", &text);
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_with_a_way_out() {
    let site = Site::new(|_| {});
    let json_of = |value: Value| (Some("application/json"), value.to_string());
    let without = |field: &str| {
        let mut request = transfer();
        request.as_object_mut().unwrap().remove(field);
        request
    };
    let with = |field: &str, value: Value| {
        let mut request = transfer();
        request[field] = value;
        request
    };
    // Method, path, media type and body; status, type and a part of the text.
    type Case<'a> = (&'a str, &'a str, (Option<&'a str>, String), u16, &'a str, &'a str);
    let cases: Vec<Case<'_>> = vec![
        ("GET", "/nothing", (None, String::new()), 404, "not_found", "there is no path `/nothing`"),
        ("DELETE", "/api/v1/transfers", (None, String::new()), 405, "method_not_allowed", "does not take DELETE"),
        ("GET", "/api/v1/transfers/t9", (None, String::new()), 404, "not_found", "there is no transfer t9"),
        ("GET", "/api/v1/transfers/9", (None, String::new()), 422, "invalid", "one is written `t17`"),
        ("GET", "/api/v1/transfers?limit=0", (None, String::new()), 422, "invalid", "`limit`: 0 is not from 1 to"),
        ("GET", "/api/v1/transfers?stat=done", (None, String::new()), 400, "malformed", "stat"),
        ("GET", "/api/v1/explain/weather/x", (None, String::new()), 422, "invalid", "ask about a transfer"),
        ("GET", "/api/v1/history", (None, String::new()), 400, "malformed", "missing field `series`"),
        ("GET", "/api/v1/history?series=", (None, String::new()), 422, "invalid", "it names no series"),
        ("GET", "/api/v1/history?series=a&points=0", (None, String::new()), 422, "invalid", "0 is not from 1 to 10000"),
        ("GET", "/api/v1/history?series=a&seconds=0", (None, String::new()), 422, "invalid", "0 is not from 1 to"),
        (
            "GET",
            "/api/v1/history?series=a&from=2026-03-01T06:00:00Z&to=2026-03-01T06:00:00Z",
            (None, String::new()),
            422,
            "invalid",
            "is not before",
        ),
        ("GET", "/api/v1/transfers/%ff", (None, String::new()), 400, "", ""),
        ("GET", "/api/v1/endpoints/..%2f", (None, String::new()), 422, "invalid", "is no name"),
        ("POST", "/api/v1/transfers", (Some("application/json"), "{".to_owned()), 400, "malformed", "cannot be read"),
        ("POST", "/api/v1/transfers", (Some("text/html"), "{}".to_owned()), 415, "unsupported_media", "text/html"),
        ("POST", "/api/v1/transfers", json_of(json!({})), 422, "invalid", "missing field"),
        ("POST", "/api/v1/transfers", json_of(without("class")), 422, "invalid", "missing field `class`"),
        ("POST", "/api/v1/transfers", json_of(with("collaboration", json!("*"))), 422, "invalid", "collaboration"),
        ("POST", "/api/v1/transfers", json_of(with("speed", json!(1))), 422, "invalid", "unknown field `speed`"),
        ("POST", "/api/v1/transfers", json_of(with("sources", json!(["x"]))), 422, "invalid", "a place is written"),
        ("POST", "/api/v1/transfers", json_of(with("urgency", json!(10))), 422, "invalid", "more than 9"),
        ("PUT", "/api/v1/network", (None, "\u{0}".repeat(9 << 20)), 413, "too_large", "longer than 8388608 bytes"),
        ("POST", "/api/v1/counters", (None, " ".repeat(70 << 10)), 413, "too_large", "longer than 65536 bytes"),
    ];
    for (method, path, (media, body), status, word, detail) in cases {
        let asking = ask(method, path).token("admin").bytes(body.into_bytes());
        let asking = if let Some(media) = media { asking.field("Content-Type", media) } else { asking };
        let reply = asking.of(site.address).await;
        assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
        if word.is_empty() {
            continue;
        }
        assert!(reply.head.contains("content-type: application/problem+json"), "{reply:?}");
        let problem = reply.json();
        assert_eq!((problem["type"].as_str(), problem["status"].as_u64()), (Some(word), Some(status.into())));
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
    let nobody = ask("GET", "/api/v1/links").of(site.address).await;
    assert!(nobody.status == 401 && nobody.head.contains("www-authenticate: bearer"), "{nobody:?}");
    let stranger = ask("GET", "/api/v1/links").token("guess").of(site.address).await;
    assert_eq!((stranger.status, stranger.json()), (401, nobody.json()), "a wrong token learns no more than none");
}

#[tokio::test]
async fn a_submitter_acts_for_its_own_collaboration_only() {
    let site = Site::new(|_| {});
    let submit = |token: &str, change: fn(&mut Value)| {
        let mut request = transfer();
        change(&mut request);
        ask("POST", "/api/v1/transfers").token(token).json(&request).of(site.address)
    };
    assert_eq!(submit("cms", |_| {}).await.status, 201);
    assert_eq!(submit("cms", |r| r["collaboration"] = Value::Null).await.status, 201);
    assert_eq!(submit("atlas", |_| {}).await.status, 403, "for another one");
    assert_eq!(submit("operator", |r| r["collaboration"] = json!("atlas")).await.status, 201);
    let shown = ask("GET", "/api/v1/transfers/t2").token("viewer").of(site.address).await.json();
    assert_eq!((shown["collaboration"].as_str(), shown["submitted_by"].as_str()), (Some("cms"), Some("cms")));
    for (token, id, status) in [("atlas", "t1", 403), ("cms", "t1", 200), ("cms", "t3", 403), ("operator", "t1", 200)] {
        for what in ["pause", "resume", "cancel"] {
            let reply = ask("POST", &format!("/api/v1/transfers/{id}/{what}")).token(token).of(site.address).await;
            assert_eq!(reply.status, status, "{token} {id} {what}: {reply:?}");
        }
        let patch = ask("PATCH", &format!("/api/v1/transfers/{id}")).token(token).json(&json!({"urgency": 1}));
        assert_eq!(patch.of(site.address).await.status, status, "{token} {id}");
    }
    let heard = site.world.heard.lock().unwrap().clone();
    assert!(heard.iter().all(|said| said.starts_with("t1")), "{heard:?}");
}

#[tokio::test]
async fn a_transfer_is_for_the_collaboration_called_like_its_class_unless_somebody_says_so() {
    let site = Site::new(|_| {});
    let body = json!({"sources": ["caltech:/data/run7"], "destination": "cern:/archive/", "class": "cms"});
    for (token, expected) in [("operator", "cms"), ("admin", "cms"), ("atlas", "atlas")] {
        let reply = ask("POST", "/api/v1/transfers").token(token).json(&body).of(site.address).await;
        assert_eq!(reply.status, 201, "{token}: {reply:?}");
        let id = reply.json()["id"].as_str().expect("a number").to_owned();
        let shown = ask("GET", &format!("/api/v1/transfers/{id}")).token("viewer").of(site.address).await.json();
        assert_eq!(shown["collaboration"].as_str(), Some(expected), "{token}: {shown}");
    }
}

#[tokio::test]
async fn what_is_asked_reaches_the_app_as_it_was_meant() {
    let site = Site::new(|_| {});
    let key = |key: &str, class: &str| {
        let mut request = transfer();
        request["class"] = json!(class);
        ask("POST", "/api/v1/transfers").token("cms").field("Idempotency-Key", key).json(&request).of(site.address)
    };
    for (name, class, status) in [("k1", "cms", 201), ("k1", "cms", 201), ("k1", "other", 422), ("k2", "cms", 201)] {
        assert_eq!(key(name, class).await.status, status, "{name} {class}");
    }
    for bad in ["", "with space", &"x".repeat(api::rest::KEY_MAX + 1), "\u{fc}"] {
        assert_eq!(key(bad, "cms").await.status, 400, "{bad}");
    }
    let list = ask("GET", "/api/v1/transfers?state=queued&class=cms&limit=7&cursor=t9").token("viewer");
    let list = list.of(site.address).await;
    assert_eq!(list.json()["items"].as_array().unwrap().len(), 2, "the key that came again made no other transfer");
    let pause = ask("POST", "/api/v1/transfers/t1/pause").token("cms").json(&json!({"reason": "for the night"}));
    assert_eq!(pause.of(site.address).await.status, 200);
    let toml = ask("PUT", "/api/v1/network").token("admin").bytes(vec![b'#'; 1 << 20]).of(site.address).await;
    assert_eq!(toml.json(), json!({"version": 1, "notes": []}));
    let failed = ask("GET", "/api/v1/transfers/t1/files?state=failed").token("viewer").of(site.address).await;
    assert_eq!(failed.status, 200);
    let history = "/api/v1/history?series=link:ana:forward/measured_bps&seconds=60&points=6";
    let history = ask("GET", history).token("viewer").of(site.address).await.json();
    assert_eq!(
        (&history["from"], &history["grain_ms"], &history["points"][0]),
        (
            &json!("2026-03-01T05:59:00Z"),
            &json!(10_000),
            &json!({"at": "2026-03-01T05:59:00Z", "mean": 1.5, "max": 2.0, "count": 10})
        )
    );
    let series = ask("GET", "/api/v1/history/series").token("viewer").of(site.address).await.json();
    assert_eq!(series[0]["name"], "link:ana:forward/measured_bps");
    let heard = site.world.heard.lock().unwrap().clone();
    let expected = [
        "TransferQuery { state: Some(Queued), class: Some(\"cms\"), limit: Some(7), cursor: Some(\"t9\") }",
        "t1 Pause for the night",
        "network of 1048576 bytes",
        "t1 FilesQuery { state: Some(Failed), limit: None, cursor: None }",
    ];
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn ten_thousand_files_fit_into_one_request() {
    let site = Site::new(|_| {});
    let mut request = transfer();
    request["files"] = (0..api::rest::FILES_MAX).map(|n| format!("{}/{n:0>500}.root", n % 7)).collect();
    let reply = ask("POST", "/api/v1/transfers").token("cms").json(&request).of(site.address).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let shown = ask("GET", "/api/v1/transfers/t1").token("cms").of(site.address).await.json();
    assert_eq!(shown["files_total"].as_u64(), Some(10_000));
}

#[tokio::test]
async fn metrics_are_for_tokens_unless_they_are_open() {
    for (open, status) in [(false, 401), (true, 200)] {
        let site = Site::new(|options| options.open_metrics = open);
        assert_eq!(ask("GET", "/metrics").of(site.address).await.status, status);
        let reply = ask("GET", "/metrics").token("viewer").of(site.address).await;
        assert!(reply.body.contains("world 1\n") && reply.body.contains("longhaul_http_connections 1\n"), "{reply:?}");
        assert_eq!(ask("GET", "/api/v1/links").of(site.address).await.status, 401, "and nothing else is");
    }
}

#[tokio::test]
async fn agents_and_people_share_the_port() {
    let mut site = Site::new(|_| {});
    let own = service::ephemeral("agent").unwrap();
    let _known = connect_as(site.address, api::agent::ALPN, Some(&own)).await.unwrap();
    let fingerprint = mover::request::Fingerprint::of(&own.certificate);
    assert_eq!(soon(site.agents.recv()).await, Some(Some(fingerprint)));
    let _unknown = connect_as(site.address, api::agent::ALPN, None).await.unwrap();
    assert_eq!(soon(site.agents.recv()).await, Some(None));
    assert!(connect_as(site.address, b"h2", None).await.is_err(), "nobody speaks that");
    assert_eq!(ask("GET", "/health").of(site.address).await.status, 204);
}
