//! The packages of this workspace: their dependencies, and the library's dependencies for
//! embedders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Dependencies of commands, servers or tests that must not be in the library.
const NOT_FOR_EMBEDDERS: &[&str] = &[
    "axum",
    "clap",
    "clap_builder",
    "clap_complete",
    "criterion",
    "h2",
    "hyper",
    "indicatif",
    "insta",
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
/// Packages that may depend on one of them.
const SERVER: (&str, &str) = ("belljar-server", "belljar-kernel");
/// The package that starts the server's workers in programs.
const PYTHON: &str = "belljar-python";
/// The package that opens stores by URL, and its users.
const STORES: (&str, [&str; 2]) = ("belljar-stores", [PYTHON, SERVER.0]);
/// The package that makes text from strangers safe to show, and its users.
const TEXT: (&str, [&str; 3]) = ("belljar-text", ["belljar", "belljar-code-mode", SERVER.0]);
/// Parts of the library that know nothing of it, nor of each other.
const PARTS: [&str; 6] = [
    "belljar-files",
    "belljar-lockdown",
    "belljar-memory",
    "belljar-passes",
    "belljar-schema",
    "belljar-value",
];
/// Those with which the Python package checks the calls of tools that another process makes.
const CALLS: [&str; 2] = ["belljar-schema", "belljar-value"];
/// The users of the parts.
const WHOLES: [&str; 2] = ["belljar", "belljar-fuzz"];

#[test]
fn an_embedder_gets_no_more_than_the_engine() {
    // Linked packages: without build, test and macro dependencies. Only `cargo tree` distinguishes
    // their features.
    let tree =
        cargo(&["tree", "--package=belljar", "--edges=normal,no-proc-macro", "--prefix=none"]);
    let linked: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(linked.contains("wasmtime"), "this reads something else:\n{tree}");
    let wrong: Vec<&&str> =
        NOT_FOR_EMBEDDERS.iter().filter(|name| linked.contains(*name)).collect();
    assert!(
        wrong.is_empty(),
        "{wrong:?}: `cargo tree -p belljar -e normal -i NAME` tells who asks"
    );
}

/// wasmtime uses anyhow; the library has its own errors.
#[test]
fn the_library_has_errors_with_names() {
    assert!(!Packages::read().dependencies["belljar"].contains("anyhow"));
}

/// A classifier promises a supported platform or version.
#[test]
fn the_python_package_promises_what_was_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let is_tested = !text("docs/guide/python.md").contains("**not been tested**");
    let is_promised = text("crates/python/pyproject.toml").contains(":: Free Threading");
    assert_eq!(
        is_promised, is_tested,
        "free-threaded Python: classifier and docs/guide/python.md differ"
    );
}

#[test]
fn no_edge_knows_another() {
    let packages = Packages::read();
    assert!(packages.own.len() >= 3, "{:?}", packages.own);
    let mut wrong = Vec::new();
    for (name, folder) in &packages.own {
        for dependency in
            packages.dependencies[name].intersection(&packages.own.keys().cloned().collect())
        {
            let is_fine = match name.as_str() {
                PYTHON if CALLS.contains(&dependency.as_str()) => true,
                name if PARTS.contains(&dependency.as_str()) => WHOLES.contains(&name),
                name if PARTS.contains(&name) => false,
                name if dependency == TEXT.0 => TEXT.1.contains(&name),
                "belljar" => false,
                COMMAND => true,
                name if name == SERVER.0 && dependency == SERVER.1 => true,
                PYTHON if dependency == SERVER.0 => true,
                name if dependency == STORES.0 && STORES.1.contains(&name) => true,
                // Used to fuzz messages of clients.
                "belljar-fuzz" => {
                    let parsers = ["belljar", "belljar-code-mode", SERVER.0, SERVER.1];
                    parsers.contains(&dependency.as_str())
                }
                _ => dependency == "belljar",
            };
            if !is_fine {
                wrong.push(format!("{name} ({folder}) depends on {dependency}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Guests of such a build have every right of their process.
#[test]
fn no_build_asks_for_the_hook_of_the_escape_tests() {
    const ESCAPE: &str = "escape";
    let text = cargo(&["metadata", "--format-version=1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let mut names = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let features = dependency["features"].as_array().unwrap();
            assert!(!features.contains(&ESCAPE.into()), "{name} always has it");
        }
        for (feature, parts) in package["features"].as_object().unwrap() {
            let asks = |part: &Value| part.as_str().unwrap().split('/').next_back() == Some(ESCAPE);
            if feature == ESCAPE {
                names.insert(name);
            } else {
                assert!(
                    !parts.as_array().unwrap().iter().any(asks),
                    "{name}: {feature} asks for it"
                );
            }
        }
    }
    assert_eq!(names, BTreeSet::from(["belljar", COMMAND]));
}

/// A number in the command that the library's documents state.
#[test]
fn the_longest_line_of_a_batch() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(top.join(name)).unwrap();
    let source = read("crates/cli/src/batch/lines.rs");
    let constant = source.split_once("u64 = ").unwrap().1;
    let mib = constant.split_once(" << 20;").expect("the longest line is in MiB").0;
    assert!(
        read("docs/reference/limits.md").contains(&format!("| a line of `batch` | {mib} MiB |"))
    );
    assert!(read("docs/reference/cli.md").contains(&format!("A line may be {mib} MiB long")));
}

/// The output of `cargo metadata` for this workspace.
struct Packages {
    /// The packages, and their paths.
    own: BTreeMap<String, String>,
    /// The dependencies of each, without those for tests and builds.
    dependencies: BTreeMap<String, BTreeSet<String>>,
}

impl Packages {
    fn read() -> Self {
        let text = cargo(&["metadata", "--format-version=1", "--no-deps"]);
        let metadata: Value = serde_json::from_str(&text).unwrap();
        let (mut own, mut dependencies) = (BTreeMap::new(), BTreeMap::new());
        for package in metadata["packages"].as_array().unwrap() {
            let name = package["name"].as_str().unwrap().to_owned();
            own.insert(name.clone(), package["manifest_path"].as_str().unwrap().to_owned());
            let all = package["dependencies"].as_array().unwrap().iter();
            let normal = all.filter(|dependency| dependency["kind"].is_null());
            let names = normal.map(|dependency| dependency["name"].as_str().unwrap().to_owned());
            dependencies.insert(name, names.collect());
        }
        Self { own, dependencies }
    }
}

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(["--locked", "--offline"]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
