//! The agent of an ssh login, spoken to as the near end speaks.

use std::net::SocketAddr;
use std::time::Duration;

use agent::{AgentError, OneshotOptions, Stop, oneshot};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::chain;

struct Login {
    agent: JoinHandle<Result<(), AgentError>>,
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    stop: watch::Sender<Stop>,
}

fn start(options: OneshotOptions) -> Login {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (stop, stopping) = watch::channel(Stop::No);
    let (input, output) = tokio::io::split(far);
    let agent = tokio::spawn(oneshot(options, input, output, stopping));
    let (output, input) = tokio::io::split(near);
    Login { agent, input, output: BufReader::new(output), stop }
}

impl Login {
    async fn say(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    async fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn ended(self) -> Result<(), AgentError> {
        tokio::time::timeout(Duration::from_secs(20), self.agent).await.expect("it ends").unwrap()
    }
}

const LISTEN: &str = "{\"key\": \"0123456789abcdef\", \"connect\": null}\n";

#[tokio::test]
async fn it_listens_says_where_and_ends_with_the_login() {
    let reached_at = Some("::ffff:192.0.2.9".parse().unwrap());
    let mut login = start(OneshotOptions { reached_at, ..OneshotOptions::default() });
    login.say(LISTEN).await;
    let answer = login.answer().await;
    let port = u16::try_from(answer["port"].as_u64().unwrap()).unwrap();
    TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
    assert_eq!(answer["addresses"][0], "192.0.2.9", "what ssh reached comes first");
    assert!(!answer["addresses"].as_array().unwrap().iter().any(|a| a == "127.0.0.1" || a == "::1"), "{answer}");
    assert!(answer["fingerprint"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(answer["version"], env!("CARGO_PKG_VERSION"));
    login.input.shutdown().await.unwrap();
    login.ended().await.unwrap();
}

#[tokio::test]
async fn it_ends_when_it_is_told_to() {
    let mut login = start(OneshotOptions::default());
    login.say(LISTEN).await;
    login.answer().await;
    login.stop.send_replace(Stop::Finish);
    login.ended().await.unwrap();
}

#[tokio::test]
async fn it_keeps_to_the_ports_it_was_given() {
    let taken = std::net::TcpListener::bind("[::]:0").or_else(|_| std::net::TcpListener::bind("0.0.0.0:0")).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut login = start(OneshotOptions { ports: Some(port..=port), ..OneshotOptions::default() });
    login.say(LISTEN).await;
    let error = login.ended().await.unwrap_err();
    assert_eq!(
        chain(&error),
        format!("no port from {port} to {port} is free: give a wider range: Address already in use (os error 98)")
    );
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_without_repeating_it() {
    let told = async |line: &str| {
        let mut login = start(OneshotOptions::default());
        login.say(line).await;
        login.input.shutdown().await.unwrap();
        let error = login.ended().await.unwrap_err();
        assert_eq!(error.exit_code(), 1);
        chain(&error)
            .replace("cannot serve this ssh login: ", "")
            .replace("; the two ends may be of different versions", "")
    };
    assert_eq!(
        told("{\"key\": \"0123456789abcdef\"").await,
        "standard input ended, or went on for too long, within its first line"
    );
    assert_eq!(told(&"x".repeat(60_000)).await, "standard input ended, or went on for too long, within its first line");
    assert_eq!(
        told("{\"key\": \"secret\", \"new\": 1}\n").await,
        "standard input is not the JSON it should be (column 23)"
    );
    assert_eq!(told("{\"key\": \"short\"}\n").await, "a one-time key has at least 16 characters");
    for fingerprint in ["null", "\"sha256:00\""] {
        let line = format!(
            "{{\"key\": \"0123456789abcdef\", \"connect\": [\"127.0.0.1:1\"], \"fingerprint\": {fingerprint}}}\n"
        );
        assert_eq!(told(&line).await, "to connect back it needs the fingerprint of the other end");
    }
}

#[tokio::test]
async fn connecting_back_ends_with_the_login_too() {
    let mut login = start(OneshotOptions::default());
    let fingerprint = format!("sha256:{}", "00".repeat(32));
    login
        .say(&format!(
            "{{\"key\": \"0123456789abcdef\", \"connect\": [\"127.0.0.1:1\"], \"fingerprint\": \"{fingerprint}\"}}\n"
        ))
        .await;
    let answer = login.answer().await;
    assert_eq!((&answer["port"], &answer["fingerprint"]), (&Value::Null, &Value::Null));
    login.input.shutdown().await.unwrap();
    login.ended().await.unwrap();
}
