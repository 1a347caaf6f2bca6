//! The packages of this workspace: who depends on whom, and what an embedder gets with the library.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What belongs to a command, a server or a test, and never to the library.
const NOT_FOR_EMBEDDERS: &[&str] = &[
    "anyhow",
    "axum",
    "clap",
    "clap_builder",
    "clap_complete",
    "criterion",
    "h2",
    "hyper",
    "indicatif",
    "insta",
    "jsonschema",
    "openssl-sys",
    "proptest",
    "pyo3",
    "reqwest",
    "rustls",
    "rustyline",
    "tracing-subscriber",
];

/// The package that may depend on the others below `crates`.
const COMMAND: &str = "belljar-cli";

#[test]
fn an_embedder_gets_no_more_than_the_engine() {
    let packages = Packages::read();
    let mut paths = BTreeMap::from([("belljar".to_owned(), "belljar".to_owned())]);
    let mut rest = vec!["belljar".to_owned()];
    while let Some(name) = rest.pop() {
        for dependency in &packages.linked[&name] {
            if !paths.contains_key(dependency) {
                paths.insert(dependency.clone(), format!("{} -> {dependency}", paths[&name]));
                rest.push(dependency.clone());
            }
        }
    }
    assert!(paths.contains_key("wasmtime"), "this reads something else: {paths:?}");
    let wrong: Vec<&String> =
        NOT_FOR_EMBEDDERS.iter().filter_map(|name| paths.get(*name)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_edge_knows_another() {
    let packages = Packages::read();
    assert!(packages.own.len() >= 3, "{:?}", packages.own);
    let mut wrong = Vec::new();
    for (name, folder) in &packages.own {
        for dependency in
            packages.linked[name].intersection(&packages.own.keys().cloned().collect())
        {
            let is_fine = match name.as_str() {
                "belljar" => false,
                COMMAND => true,
                _ => dependency == "belljar",
            };
            if !is_fine {
                wrong.push(format!("{name} ({folder}) depends on {dependency}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A number that the command has and the library's documents state.
#[test]
fn the_longest_line_of_a_batch() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(top.join(name)).unwrap();
    let source = read("crates/cli/src/batch/lines.rs");
    let constant = source.split_once("u64 = ").unwrap().1;
    let mib = constant.split_once(" << 20;").expect("the longest line is in MiB").0;
    assert!(read("docs/limits.md").contains(&format!("| a line of `batch` | {mib} MiB |")));
    assert!(read("docs/cli.md").contains(&format!("A line may be {mib} MiB long")));
}

/// What `cargo metadata` says, by name. Of two versions of a package, the dependencies are put together.
struct Packages {
    /// The packages of this workspace, and where they are.
    own: BTreeMap<String, String>,
    /// What each is linked with: neither what builds and tests it, nor what macros are made of.
    linked: BTreeMap<String, BTreeSet<String>>,
}

impl Packages {
    fn read() -> Self {
        let metadata = metadata();
        let mut names = BTreeMap::new();
        let mut macros = BTreeSet::new();
        for package in metadata["packages"].as_array().unwrap() {
            let (id, name) = (package["id"].as_str().unwrap(), package["name"].as_str().unwrap());
            names.insert(id, name.to_owned());
            let kinds =
                package["targets"].as_array().unwrap().iter().map(|target| &target["kind"][0]);
            if kinds.into_iter().any(|kind| kind == "proc-macro") {
                macros.insert(id);
            }
        }
        let mut linked: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in metadata["resolve"]["nodes"].as_array().unwrap() {
            let own = linked.entry(names[node["id"].as_str().unwrap()].clone()).or_default();
            for dependency in node["deps"].as_array().unwrap() {
                let id = dependency["pkg"].as_str().unwrap();
                let mut kinds = dependency["dep_kinds"].as_array().unwrap().iter();
                if kinds.any(|kind| kind["kind"].is_null()) && !macros.contains(id) {
                    own.insert(names[id].clone());
                }
            }
        }
        let members = metadata["workspace_members"].as_array().unwrap();
        let own = members.iter().map(|id| id.as_str().unwrap());
        Self {
            own: own.map(|id| (names[id].clone(), id.to_owned())).collect(),
            linked,
        }
    }
}

fn metadata() -> Value {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version=1", "--locked", "--offline"]);
    // Dependencies for other systems need not have been downloaded, nor would they be linked here.
    command.args(["--filter-platform", &target()]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The system that this test was built for, as cargo names it.
fn target() -> String {
    let output = Command::new(env!("CARGO")).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}
