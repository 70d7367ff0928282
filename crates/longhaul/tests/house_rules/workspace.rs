//! What the rules are about: the crates of this workspace and their sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::source::Source;

pub(crate) static WORKSPACE: LazyLock<Workspace> = LazyLock::new(Workspace::read);

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) crates: BTreeMap<String, Member>,
}

pub(crate) struct Member {
    pub(crate) dir: PathBuf,
    /// The first file of each library and binary.
    pub(crate) roots: Vec<PathBuf>,
    /// Members of the workspace that this one uses, in its code, its tests or its build.
    pub(crate) uses: Vec<String>,
}

impl Workspace {
    fn read() -> Workspace {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut metadata = Command::new(cargo);
        metadata.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
        let output = metadata.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
        let members = list(&json, "packages").iter().map(|package| (text(package, "name"), Member::of(package)));
        Workspace { root: text(&json, "workspace_root").into(), crates: members.collect() }
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = Source> {
        rust_files(&self.root).into_iter().map(|path| Source::read(&path))
    }
}

impl Member {
    fn of(package: &Value) -> Member {
        let manifest = PathBuf::from(text(package, "manifest_path"));
        let is_root = |target: &&Value| {
            list(target, "kind").iter().any(|kind| ["lib", "bin", "proc-macro"].map(Into::into).contains(kind))
        };
        let roots = list(package, "targets").iter().filter(is_root);
        let inside = list(package, "dependencies").iter().filter(|used| !used["path"].is_null());
        Member {
            dir: manifest.parent().expect("a manifest is in a directory").to_owned(),
            roots: roots.map(|target| text(target, "src_path").into()).collect(),
            uses: inside.map(|used| text(used, "name")).collect(),
        }
    }
}

fn list<'a>(json: &'a Value, key: &str) -> &'a [Value] {
    json[key].as_array().unwrap_or_else(|| panic!("cargo metadata has no list `{key}`"))
}

fn text(json: &Value, key: &str) -> String {
    json[key].as_str().unwrap_or_else(|| panic!("cargo metadata has no text `{key}`")).to_owned()
}

/// The Rust files below `dir`, without what is hidden or built.
pub(crate) fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
            let entry = entry.expect("a directory can be listed");
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !name.starts_with('.') && !["target", "node_modules"].contains(&&*name) {
                    left.push(path);
                }
            } else if name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
