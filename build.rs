//! Embeds the Python runner: its modules by dotted name, and a hash of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    refuse_escapes();
    let runner = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("python-wasm")
        .join("runner");
    println!("cargo::rerun-if-changed={}", runner.display());
    let mut hasher = blake3::Hasher::new();
    let mut add = |name: &str, file: &Path| {
        let source = fs::read(file).expect("a runner module");
        for part in [name.as_bytes(), &source] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    };
    add("bootstrap", &runner.join("bootstrap.py"));
    let mut code = format!(
        "pub const BOOTSTRAP: &str = include_str!({:?});\npub const MODULES: &[(&str, &str)] = &[\n",
        path(&runner.join("bootstrap.py"))
    );
    for (name, file) in modules(&runner) {
        add(&name, &file);
        let file = path(&file);
        writeln!(code, "    ({name:?}, include_str!({file:?})),").expect("a string can be written");
    }
    code.push_str("];\n");
    let hash = hasher.finalize().to_hex();
    writeln!(code, "pub const HASH: &str = {:?};", hash.as_str()).expect("a string can be written");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("runner.rs");
    fs::write(out, code).expect("the output directory can be written");
}

/// Fails a build with the hook of the escape tests, unless it is for these tests: a build with all
/// features would be a sandbox without walls.
fn refuse_escapes() {
    if env::var_os("CARGO_FEATURE_ESCAPE").is_none() {
        return;
    }
    println!("cargo::rerun-if-env-changed=BELLJAR_ESCAPE");
    let is_test = env::var_os("BELLJAR_ESCAPE").is_some_and(|value| value == "tests");
    assert!(
        is_test,
        "the feature `escape` gives code in a sandbox every right of its process; only tests of the \
         lock-down use it, with BELLJAR_ESCAPE=tests"
    );
}

/// The runner's modules by dotted name, sorted, with their files. The load order follows from the
/// imports.
fn modules(runner: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![(String::new(), runner.to_owned())];
    while let Some((prefix, folder)) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the runner") {
            let file = entry.expect("an entry of a folder of the runner").path();
            let stem = path(Path::new(file.file_stem().expect("entries have names")));
            let name = format!("{prefix}{stem}");
            if file.is_dir() {
                folders.push((format!("{name}."), file));
            } else if file.extension().is_some_and(|it| it == "py") && name != "bootstrap" {
                found.push((name, file));
            }
        }
    }
    found.sort();
    found
}

/// A path as a string literal.
fn path(path: &Path) -> &str {
    path.to_str().expect("the sources lie under a path that is text")
}
