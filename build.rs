//! Embeds the Python runner: its modules, in the order in which they are loaded. Chooses between the
//! twins of `src/memory/sys`.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    choose_memory();
    let runner = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("python-wasm")
        .join("runner");
    println!("cargo::rerun-if-changed={}", runner.display());
    let order = fs::read_to_string(runner.join("ORDER")).expect("the list of runner modules");
    let mut code = format!(
        "pub const BOOTSTRAP: &str = include_str!({:?});\npub const MODULES: &[(&str, &str)] = &[\n",
        path(&runner.join("bootstrap.py"))
    );
    for name in order.split_whitespace().filter(|name| *name != "bootstrap") {
        let file = runner.join(format!("{name}.py"));
        let file = path(&file);
        writeln!(code, "    ({name:?}, include_str!({file:?})),").expect("a string can be written");
    }
    code.push_str("];\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("runner.rs");
    fs::write(out, code).expect("the output directory can be written");
}

/// Puts the portable twin of `src/memory/sys/linux` in its place where it is asked for, to be tested
/// on Linux, and under miri, which maps no files.
fn choose_memory() {
    println!("cargo::rustc-check-cfg=cfg(portable_memory)");
    println!("cargo::rerun-if-env-changed=BELLJAR_PORTABLE_MEMORY");
    if env::var_os("BELLJAR_PORTABLE_MEMORY").is_some() || env::var_os("CARGO_CFG_MIRI").is_some() {
        println!("cargo::rustc-cfg=portable_memory");
    }
}

/// A path as a string literal can hold it.
fn path(path: &Path) -> &str {
    path.to_str().expect("the sources lie under a path that is text")
}
