//! Selects a folder of `src/sys`.

use std::env;

/// The folder of `src/sys` for the target system. Another one can be selected for tests on Linux,
/// and under miri, which does not map files.
fn main() {
    println!(
        "cargo::rustc-check-cfg=cfg(memory, values(\"linux\", \"unix\", \"windows\", \"portable\"))"
    );
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BELLJAR_MEMORY");
    let is_unix = env::var_os("CARGO_CFG_UNIX").is_some();
    let system = env::var("CARGO_CFG_TARGET_OS").expect("cargo sets it");
    let asked = env::var("BELLJAR_MEMORY").ok();
    let memory = match (asked.as_deref(), system.as_str()) {
        (Some("portable"), _) => "portable",
        (Some("unix"), _) if is_unix => "unix",
        (Some(other), _) => panic!("BELLJAR_MEMORY is {other:?}, neither unix nor portable"),
        _ if env::var_os("CARGO_CFG_MIRI").is_some() => "portable",
        (None, "linux") => "linux",
        (None, "windows") => "windows",
        (None, "macos" | "freebsd") => "unix",
        (None, _) => "portable",
    };
    println!("cargo::rustc-cfg=memory={memory:?}");
}
