//! `longhaul token`: works on the agent's store of tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use agent::tokens::{NewToken, Scope, Token};
use agent::{Config, Overrides, TokenStore};
use anyhow::Result;
use serde_json::{Value, json};
use units::Span;

use crate::args::token::{ListArgs, NewArgs, RevokeArgs, StateArgs, TokenWhat};
use crate::exit;
use crate::output::{COLUMNS_MAX, note, print};

/// Does what was asked.
///
/// # Errors
/// When the store cannot be used, or what was asked makes no sense.
pub(super) fn run(what: TokenWhat) -> Result<u8> {
    match what {
        TokenWhat::New(args) => new(args)?,
        TokenWhat::Ls(args) => list(&args)?,
        TokenWhat::Revoke(args) => revoke(&args)?,
    }
    Ok(exit::DONE)
}

/// The agent's configuration, which says where its store is.
pub(super) fn config(args: &StateArgs) -> Result<Config> {
    let overrides = Overrides { state_dir: args.state_dir.clone(), ..Overrides::default() };
    Ok(Config::load(args.config.as_deref(), &overrides, &agent::Environment::of_process())?)
}

/// The store of an agent, which must be there: at a wrong place there is nothing to list or to take back.
fn existing(args: &StateArgs) -> Result<TokenStore> {
    Ok(TokenStore::open_existing(config(args)?.state_dir())?)
}

fn new(args: NewArgs) -> Result<()> {
    let config = config(&args.state)?;
    let store = TokenStore::open(config.state_dir())?;
    let wanted = NewToken {
        name: args.name,
        read: args.read,
        write: args.write,
        expires: args.expires,
        test: args.test,
        relay: args.relay,
    };
    // Roots that were given to `serve` as options are not known here.
    let roots = args.state.config.is_some().then(|| config.roots());
    let issued = store.issue(&wanted, roots, SystemTime::now())?;
    if args.json {
        let mut record = record(&issued.token);
        record["token"] = Value::String(issued.text);
        return print(format!("{record}\n"));
    }
    note(&format!("token {} ({}): it is shown this once", issued.token.name, scope(&issued.token.scope)));
    print(format!("{}\n", issued.text))
}

fn list(args: &ListArgs) -> Result<()> {
    let store = existing(&args.state)?;
    let (tokens, now) = (store.list()?, SystemTime::now());
    if args.json {
        let records: Vec<Value> = tokens.iter().map(record).collect();
        return print(format!(
            "{}\n",
            json!({ "tokens": records, "main_token_file": store.main_file().display().to_string() })
        ));
    }
    let mut text = format!("main token: {}\n", store.main_file().display());
    if !tokens.is_empty() {
        text.push_str(&row("ID", "NAME", "EXPIRES", "MAY"));
    }
    for token in &tokens {
        text.push_str(&row(&token.id, &token.name, &expiry(token, now), &scope(&token.scope)));
    }
    print(text)
}

fn revoke(args: &RevokeArgs) -> Result<()> {
    let store = existing(&args.state)?;
    for id in &args.ids {
        let name = store.revoke(id)?;
        if name == "main" {
            note(&format!("the main token is another one now: {}", store.main_file().display()));
        } else {
            note(&format!("token {name} is revoked"));
        }
    }
    Ok(())
}

fn row(id: &str, name: &str, expires: &str, scope: &str) -> String {
    let line = format!("{id:<8}  {name:<16}  {expires:<10}  {scope}");
    let line: String = line.chars().take(COLUMNS_MAX).collect();
    format!("{}\n", line.trim_end())
}

fn expiry(token: &Token, now: SystemTime) -> String {
    match token.expires {
        None => "never".into(),
        Some(at) => at.duration_since(now).map_or_else(|_| "expired".into(), |left| format!("in {}", Span::new(left))),
    }
}

/// `read /a, write /b, test`.
fn scope(scope: &Scope) -> String {
    let read = scope.read.iter().map(|path| format!("read {path}"));
    let write = scope.write.iter().map(|path| format!("write {path}"));
    let may = [(scope.test, "test"), (scope.relay, "relay")]
        .into_iter()
        .filter(|(may, _)| *may)
        .map(|(_, what)| what.to_owned());
    read.chain(write).chain(may).collect::<Vec<_>>().join(", ")
}

fn record(token: &Token) -> Value {
    let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let paths = |paths: &[agent::path::AbsPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "id": token.id,
        "name": token.name,
        "read": paths(&token.scope.read),
        "write": paths(&token.scope.write),
        "test": token.scope.test,
        "relay": token.scope.relay,
        "created_unix_s": seconds(token.created),
        "expires_unix_s": token.expires.map(seconds),
    })
}
