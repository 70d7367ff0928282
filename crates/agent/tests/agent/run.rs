//! From start to end: the ready file, signals' effect, what stands in the way of a start.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use agent::{AgentError, Config, Overrides, Stop, run, signals};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::{Site, chain, mode};

fn overrides(site: &Site) -> Overrides {
    Overrides {
        listen: Some("127.0.0.1:0".into()),
        roots: vec![site.path("in")],
        state_dir: Some(site.path("state")),
        ready_file: Some(site.path("ready.json")),
        ..Overrides::default()
    }
}

fn config(site: &Site, overrides: Overrides) -> Config {
    Config::load(None, &overrides, &site.environment()).unwrap()
}

async fn ready(path: &Path) -> Value {
    for _ in 0..1000 {
        if let Ok(text) = fs::read_to_string(path) {
            return serde_json::from_str(&text).expect("never half a file");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no ready file");
}

#[tokio::test]
async fn it_says_when_it_is_ready_and_takes_that_back_at_the_end() {
    let site = Site::new();
    let file = site.path("ready.json");
    fs::write(&file, "{\"address\": \"of an agent before\"}").unwrap();
    let (stop, stopping) = watch::channel(Stop::No);
    let agent = tokio::spawn(run(
        config(&site, Overrides { metrics: Some("127.0.0.1:0".into()), ..overrides(&site) }),
        stopping,
    ));
    while fs::read_to_string(&file).is_ok_and(|text| text.contains("before")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let ready = ready(&file).await;
    assert_eq!(mode(&file), 0o600);
    let address: SocketAddr = ready["address"].as_str().unwrap().parse().unwrap();
    assert_ne!(address.port(), 0);
    TcpStream::connect(address).await.unwrap();
    let token = fs::read_to_string(site.path("state/token")).unwrap();
    assert_eq!(ready["token"].as_str(), Some(token.trim()));
    let fingerprint = ready["fingerprint"].as_str().unwrap();
    assert!(fingerprint.starts_with("sha256:") && fingerprint.len() == 71, "{fingerprint}");
    let metrics: SocketAddr = ready["metrics"].as_str().unwrap().parse().unwrap();
    let (_, body) = crate::endpoint::get(metrics, "/metrics").await;
    assert!(body.contains("longhaul_sessions_active 0\n"), "{body}");

    stop.send_replace(Stop::Finish);
    tokio::time::timeout(Duration::from_secs(20), agent).await.unwrap().unwrap().unwrap();
    assert!(!file.exists());
}

#[tokio::test]
async fn any_address_is_reachable_at_loopback() {
    let site = Site::new();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        if listen == "[::]:0" && std::net::TcpListener::bind("[::1]:0").is_err() {
            continue;
        }
        let (stop, stopping) = watch::channel(Stop::No);
        let agent =
            tokio::spawn(run(config(&site, Overrides { listen: Some(listen.into()), ..overrides(&site) }), stopping));
        let ready = ready(&site.path("ready.json")).await;
        let address: SocketAddr = ready["address"].as_str().unwrap().parse().unwrap();
        assert_eq!(address.ip().to_string(), "127.0.0.1", "{listen}");
        assert_eq!(ready.get("metrics"), None);
        TcpStream::connect(address).await.unwrap();
        stop.send_replace(Stop::Finish);
        tokio::time::timeout(Duration::from_secs(20), agent).await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_ready_file_of_somebody_else_stays() {
    let site = Site::new();
    let file = site.path("ready.json");
    let (stop, stopping) = watch::channel(Stop::No);
    let agent = tokio::spawn(run(config(&site, overrides(&site)), stopping));
    ready(&file).await;
    fs::write(site.path("other.json"), "other").unwrap();
    fs::rename(site.path("other.json"), &file).unwrap();
    stop.send_replace(Stop::Finish);
    tokio::time::timeout(Duration::from_secs(20), agent).await.unwrap().unwrap().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "other");
}

#[tokio::test]
async fn what_stands_in_the_way_of_a_start_is_named() {
    let site = Site::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let start = async |overrides: Overrides| {
        let (_stop, stopping) = watch::channel(Stop::No);
        let error: AgentError = run(config(&site, overrides), stopping).await.unwrap_err();
        (error.exit_code(), site.plain(chain(&error)).replace(&address, "ADDRESS"))
    };
    let taken = "Address already in use (os error 98)";
    assert_eq!(
        start(Overrides { listen: Some(address.clone()), ..overrides(&site) }).await,
        (1, format!("cannot listen at ADDRESS: another program has this port; choose another with --listen: {taken}"))
    );
    assert_eq!(
        start(Overrides { metrics: Some(address.clone()), ..overrides(&site) }).await,
        (
            1,
            format!(
                "cannot serve metrics at ADDRESS: another program has this port; choose another with --metrics: {taken}"
            )
        )
    );
    assert_eq!(
        start(Overrides { listen: Some("192.0.2.1:4810".into()), ..overrides(&site) }).await,
        (1, "cannot listen at 192.0.2.1:4810: this host does not have that address; choose another with --listen: Cannot assign requested address (os error 99)".into())
    );
    assert_eq!(
        start(Overrides { ready_file: Some(site.path("none/ready.json")), ..overrides(&site) }).await,
        (1, "cannot write the ready file TOP/none/ready.json: No such file or directory (os error 2)".into())
    );
    fs::set_permissions(site.path("state/token"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let (code, text) = start(overrides(&site)).await;
    assert_eq!(code, 2, "starting again does not help");
    assert!(text.contains("run `chmod 600 TOP/state/token`"), "{text}");
    assert!(!site.path("ready.json").exists());
}

#[tokio::test]
async fn the_first_signal_asks_and_the_second_insists() {
    let mut stop = signals().unwrap();
    let kill = |signal: &str| {
        let kill = std::process::Command::new("kill").args([signal, &std::process::id().to_string()]).status();
        assert!(kill.unwrap().success());
    };
    assert_eq!(*stop.borrow(), Stop::No);
    kill("-TERM");
    stop.wait_for(|stop| *stop == Stop::Finish).await.unwrap();
    kill("-INT");
    stop.wait_for(|stop| *stop == Stop::Now).await.unwrap();
}
