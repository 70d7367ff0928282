//! The face of the controller over real sockets.

mod bounds;
mod client;
mod events;
mod routes;
mod world;

/// Compares with a file beside this one; `UPDATE_GOLDEN=1` writes it.
fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == text, "{} has changed: look at it, then run again with UPDATE_GOLDEN=1", path.display());
}
