//! The commands against a controller that answers what it is told to, over real sockets.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use clap::Parser;
use mover::request::Fingerprint;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::args::run_controller::ControllerWhat;
use crate::args::{Args, Command};
use crate::exit;

/// A controller that gives its answers in turn and remembers what it was asked. An answer of status 0 is a connection that is
/// lost.
struct Fake {
    url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

async fn fake(answers: Vec<(u16, Value)>) -> Fake {
    let identity = service::ephemeral("controller").unwrap();
    let fingerprint = Fingerprint::of(&identity.certificate);
    let config = mover::tls::server(&identity, &[b"http/1.1"], mover::tls::AskClient::No).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}#{fingerprint}", listener.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (hears, mut answers) = (heard.clone(), VecDeque::from(answers));
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let mut stream = TlsAcceptor::from(config.clone()).accept(tcp).await.unwrap();
            let asked = request(&mut stream).await;
            hears.lock().unwrap().push(asked);
            let (status, body) = answers.pop_front().expect("it is asked no more often than it has answers");
            if status == 0 {
                continue;
            }
            let media = if status < 400 { "application/json" } else { "application/problem+json" };
            let body = body.to_string();
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status} X\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    });
    Fake { url, heard }
}

/// Reads a request: its first line, its key and its body.
async fn request(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut text = String::new();
    loop {
        let mut bytes = [0; 4096];
        let n = stream.read(&mut bytes).await.unwrap();
        text += std::str::from_utf8(&bytes[..n]).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
        let length: usize = field("content-length:").map_or(0, |length| length.parse().unwrap());
        if body.len() >= length {
            assert_eq!(field("authorization:"), Some("Bearer secret"));
            let first = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
            return format!("{first} {} {body}", field("idempotency-key:").unwrap_or("-"));
        }
    }
}

async fn run(fake: &Fake, line: &str) -> Result<u8> {
    let words = std::iter::once("longhaul").chain(line.split(' ')).chain(["--controller", &fake.url]);
    let environment = Environment { token: Some("secret".to_owned()), ..Environment::default() };
    match Args::try_parse_from(words).unwrap().command {
        Command::Controller(command) => Asking::of(command, &environment)?.ask().await,
        Command::RunController(args) => match args.what {
            Some(ControllerWhat::Token(args)) => ApiTokens::of(args.what, &environment)?.ask().await,
            _ => panic!("{line}"),
        },
        _ => panic!("{line}"),
    }
}

fn transfer(state: &str) -> Value {
    json!({
        "id": "t7", "name": "", "collaboration": "cms", "class": "cms", "urgency": 0, "state": state, "reason": "as it is",
        "sources": ["a:/x"], "bytes_total": 10, "bytes_done": 5, "files_total": 2, "files_done": 1, "files_failed": 0,
        "rate_bps": 8, "allocated_bps": 9, "legs": [], "submitted_by": "me", "submitted_at": "2026-03-01T06:00:00Z"
    })
}

#[tokio::test]
async fn a_submission_whose_answer_is_lost_is_sent_again_with_its_key() {
    let fake =
        fake(vec![(0, Value::Null), (201, json!({"id": "t7"})), (200, transfer("moving")), (200, transfer("partly"))])
            .await;
    let line =
        "transfer submit a:/x/ b:/y/ --also-to c:/z --class cms --urgent 3 --checksum sha256 --overwrite never --wait";
    assert_eq!(run(&fake, line).await.unwrap(), exit::PARTLY);
    let heard = fake.heard.lock().unwrap().clone();
    assert_eq!(heard[0], heard[1], "the same key and the same body");
    assert_eq!(heard[2..], ["GET /api/v1/transfers/t7 - ", "GET /api/v1/transfers/t7 - "]);
    let (key, body) = heard[0].strip_prefix("POST /api/v1/transfers ").unwrap().split_once(' ').unwrap();
    assert_eq!(key.len(), 32);
    let expected = json!({
        "sources": ["a:/x/"], "destinations": ["b:/y/", "c:/z"], "class": "cms", "urgency": 3, "checksum": "sha256", "overwrite": "never"
    });
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
}

#[tokio::test]
async fn waiting_ends_with_what_came_of_it() {
    for (state, code) in
        [("done", exit::DONE), ("partly", exit::PARTLY), ("failed", exit::FAILED), ("cancelled", exit::FAILED)]
    {
        let fake = fake(vec![(200, transfer("queued")), (0, Value::Null), (200, transfer(state))]).await;
        assert_eq!(run(&fake, "transfer wait t7").await.unwrap(), code, "{state}");
    }
    let fake = fake(vec![(200, transfer("queued")), (200, transfer("queued"))]).await;
    let late = run(&fake, "transfer wait t7 --timeout 1ms").await.unwrap_err();
    assert_eq!(exit::code_of(&late), exit::AGAIN, "{late}");
}

#[tokio::test]
async fn problems_become_texts_and_codes() {
    let problem = |kind: api::rest::Kind| {
        let problem = api::rest::Problem::new(kind, "it is so").fix("do this");
        (problem.status, serde_json::to_value(problem).unwrap())
    };
    use api::rest::Kind::{Forbidden, Invalid, NoCapacity, NotFound, StoreFull};
    for (kind, code) in [
        (NotFound, exit::FAILED),
        (NoCapacity, exit::REFUSED),
        (StoreFull, exit::AGAIN),
        (Invalid, exit::USAGE),
        (Forbidden, exit::USAGE),
    ] {
        let fake = fake(vec![problem(kind)]).await;
        let error = run(&fake, "transfer show t7").await.unwrap_err();
        assert_eq!((exit::code_of(&error), error.to_string()), (code, "it is so: do this".to_owned()));
    }
    // What to send in a request helps nobody at a command line.
    let fake_of_strangers = fake(vec![problem(api::rest::Kind::Unauthenticated)]).await;
    let error = run(&fake_of_strangers, "transfer show t7").await.unwrap_err();
    let text = "the controller knows no such API token: give another by --token-file or LONGHAUL_TOKEN; an admin makes one with \
                `longhaul controller token new`";
    assert_eq!((exit::code_of(&error), error.to_string().as_str()), (exit::USAGE, text));
    let other = fake(vec![(500, json!("no problem document"))]).await;
    let error = run(&other, "agent ls").await.unwrap_err();
    assert!(error.to_string().contains("another version"), "{error}");
}

#[tokio::test]
async fn who_does_not_answer_or_is_another_is_told_apart() {
    let lost = fake(vec![(0, Value::Null)]).await;
    assert_eq!(exit::code_of(&run(&lost, "agent ls").await.unwrap_err()), exit::AGAIN);
    let (url, _) = lost.url.split_once('#').unwrap();
    let other = Fake { url: format!("{url}#sha256:{}", "00".repeat(32)), heard: Arc::default() };
    let error = run(&other, "agent ls").await.unwrap_err();
    assert!(error.to_string().contains("somebody may be in between"), "{error}");
    assert_eq!(exit::code_of(&error), exit::FAILED);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = Fake { url: format!("https://{closed}#sha256:{}", "00".repeat(32)), heard: Arc::default() };
    assert_eq!(exit::code_of(&run(&nobody, "agent ls").await.unwrap_err()), exit::AGAIN);
}

#[tokio::test]
async fn every_command_asks_for_what_it_says() {
    let agent = json!({
        "host": "dtn1", "state": "online", "mode": "draining", "reason": "", "fingerprint": "", "version": "", "hostname": "",
        "enrolled_at": "2026-03-01T06:00:00Z", "addresses": [], "interfaces": [], "grants": [], "cores": 1, "sessions_max": 1,
        "sessions": [], "rate_bps": 0
    });
    let endpoint = json!({"name": "cern", "hosts": ["dtn1"], "root": "/eos", "online": []});
    let limit =
        json!({"resource": "ana:forward", "rate_bps": 1, "until": "2026-03-01T06:00:00Z", "by": "me", "why": "x"});
    let explanation = json!({"what": "link", "subject": "ana:forward", "text": "so", "holders": [], "remedies": [], "assurance": "edge"});
    let made = json!({"host": "dtn1", "token": "x", "expires_at": "2026-03-01T06:00:00Z", "fingerprint": ""});
    let page = |items: Value, next: Option<&str>| json!({"items": items, "next": next});
    // The command; what is answered; what was asked.
    type Case<'a> = (&'a str, Vec<(u16, Value)>, Vec<&'a str>);
    let cases: Vec<Case<'_>> = vec![
        (
            "transfer ls --state moving --limit 3",
            vec![(200, page(json!([transfer("moving")]), Some("c1"))), (200, page(json!([]), None))],
            vec![
                "GET /api/v1/transfers?limit=3&state=moving - ",
                "GET /api/v1/transfers?limit=2&state=moving&cursor=c1 - ",
            ],
        ),
        (
            "transfer cancel t7 --reason over",
            vec![(200, transfer("cancelled"))],
            vec!["POST /api/v1/transfers/t7/cancel - {\"reason\":\"over\"}"],
        ),
        (
            "transfer set t7 --urgent 9",
            vec![(200, transfer("moving"))],
            vec!["PATCH /api/v1/transfers/t7 - {\"urgency\":9}"],
        ),
        (
            "transfer files t7 --state failed",
            vec![(200, page(json!([]), None))],
            vec!["GET /api/v1/transfers/t7/files?limit=1000&state=failed - "],
        ),
        ("class ls --json", vec![(200, json!([]))], vec!["GET /api/v1/classes - "]),
        ("topology links", vec![(200, json!([]))], vec!["GET /api/v1/links - "]),
        ("topology paths", vec![(200, json!([]))], vec!["GET /api/v1/paths - "]),
        ("agent ls", vec![(200, json!([agent]))], vec!["GET /api/v1/agents - "]),
        ("agent drain dtn1", vec![(200, agent.clone())], vec!["POST /api/v1/agents/dtn1/drain - {\"reason\":\"\"}"]),
        (
            "agent token dtn1 --expires 2h",
            vec![(201, made)],
            vec!["POST /api/v1/agents/tokens - {\"host\":\"dtn1\",\"good_seconds\":7200}"],
        ),
        ("agent rm dtn1", vec![(200, json!(null))], vec!["DELETE /api/v1/agents/dtn1 - "]),
        (
            "endpoint set cern --host dtn1 --root /eos",
            vec![(200, endpoint)],
            vec!["PUT /api/v1/endpoints/cern - {\"hosts\":[\"dtn1\"],\"root\":\"/eos\"}"],
        ),
        (
            "limit set ana:forward --rate 40Gb/s --for 2h --why x",
            vec![(200, limit)],
            vec!["PUT /api/v1/limits/ana:forward - {\"rate_bps\":40000000000,\"for_seconds\":7200,\"why\":\"x\"}"],
        ),
        ("limit lift a/b", vec![(200, json!(null))], vec!["DELETE /api/v1/limits/a%2Fb - "]),
        (
            "controller token new alice --role submitter --collaboration cms --expires 2d",
            vec![(201, json!({"name": "alice", "token": "x", "expires_at": "2026-03-01T06:00:00Z"}))],
            vec![
                "POST /api/v1/tokens - {\"name\":\"alice\",\"role\":\"submitter\",\"collaboration\":\"cms\",\"good_seconds\":172800}",
            ],
        ),
        (
            "controller token ls",
            vec![(
                200,
                json!([{"name": "alice", "role": "submitter", "collaboration": "cms"}, {"name": "noc", "role": "operator"}]),
            )],
            vec!["GET /api/v1/tokens - "],
        ),
        (
            "controller token revoke alice a/b",
            vec![(204, json!(null)), (204, json!(null))],
            vec!["DELETE /api/v1/tokens/alice - ", "DELETE /api/v1/tokens/a%2Fb - "],
        ),
        ("history --json", vec![(200, json!([{"name": "all/sessions"}]))], vec!["GET /api/v1/history/series - "]),
        (
            "history link:ana:forward/measured_bps --since 6h --points 72",
            vec![(
                200,
                json!({"series": "x", "from": "2026-03-01T06:00:00Z", "to": "2026-03-01T12:00:00Z", "grain_ms": 300_000, "points": []}),
            )],
            vec!["GET /api/v1/history?series=link:ana:forward%2Fmeasured_bps&seconds=21600&points=72 - "],
        ),
        ("explain link ana:forward", vec![(200, explanation)], vec!["GET /api/v1/explain/link/ana:forward - "]),
    ];
    for (line, answers, expected) in cases {
        let fake = fake(answers).await;
        assert_eq!(run(&fake, line).await.unwrap_or_else(|error| panic!("{line}: {error:#}")), exit::DONE, "{line}");
        assert_eq!(*fake.heard.lock().unwrap(), expected, "{line}");
    }
}

#[test]
fn what_is_missing_is_named_before_anything_is_asked() {
    let of = |line: &str, token: Option<&str>, controller: Option<&str>| {
        let Command::Controller(command) = Args::try_parse_from(line.split(' ')).unwrap().command else { panic!() };
        let environment = Environment {
            token: token.map(str::to_owned),
            controller: controller.map(str::to_owned),
            state_home: Some("/nowhere".into()),
            ..Environment::default()
        };
        Asking::of(command, &environment).map(|_| ()).map_err(|error| error.to_string())
    };
    let ls = "longhaul agent ls";
    assert_eq!(of(ls, Some("x"), Some("https://host")), Ok(()));
    assert!(of(ls, Some("x"), None).unwrap_err().contains("LONGHAUL_CONTROLLER"));
    assert!(of(ls, None, Some("host")).unwrap_err().contains("--token-file"));
    assert!(of(ls, Some("x"), Some("http://host")).unwrap_err().contains("https://"));
}
