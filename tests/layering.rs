//! The shape of the source, which no compiler checks: modules import towards the start of the
//! flow only, `unsafe` stays in the files that are named for it, files stay readable.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the library in the order of the flow; one imports only from those above it, or
/// from its own line. The longest path that fits counts.
const RANKS: &[&[&str]] = &[
    // What anything may say and every error must answer.
    &["hint", "blame", "cause", "hex", "limits", "progress"],
    // What is asked and answered.
    &["api::setters", "api::watch"],
    &["api::outcome", "api::request", "api::refusal"],
    &["api::policy", "api::json"],
    &["cache", "memory"],
    &["parallel", "workspace"],
    &["module"],
    // An image as a file, and made live.
    &["image"],
    &["instance"],
    // What is spoken with the guest, and what it means.
    &["guest"],
    &["interpreter"],
    // Images are made by running them.
    &["bakery::recipe"],
    &["bakery::choose", "bakery::error"],
    &["bakery::bake"],
    &["bakery::shelf"],
    &["bakery::store", "bakery"],
    &["session::error"],
    // All that can go wrong, in one type.
    &["error"],
    // What runs share, and what one needs.
    &["shared", "run::verdict"],
    &["run::report"],
    &["run", "licenses", "doctor"],
    &["images", "session"],
    &["reactor"],
    &["runtime"],
    &["blocking", "fuzzing"],
    // Compares documents with anything.
    &["documents"],
];

/// The files that may hold `unsafe`; each opens with the reason.
const UNSAFE: &[&str] = &[
    "src/instance/drive.rs",
    "src/instance/interrupt.rs",
    "src/memory/creator.rs",
    "src/memory/sys/linux/pagemap.rs",
    "src/memory/sys/linux/process.rs",
    "src/memory/sys/linux/region.rs",
    "src/memory/sys/linux/stacks.rs",
    "src/memory/sys/linux/watch.rs",
    "src/module/code.rs",
];

/// The one file that prints.
const PRINTER: &str = "crates/cli/src/printer.rs";

const LONGEST_FILE: usize = 800;
const LONGEST_TABLE_OF_CONTENTS: usize = 100;

#[test]
fn modules_import_towards_the_start_of_the_flow() {
    let mut wrong = Vec::new();
    for file in library() {
        let here = module_path(&file.name);
        let Some(rank) = rank_of(&here) else {
            wrong.push(format!("{}: {} has no rank", file.name, here.join("::")));
            continue;
        };
        for import in imports(&file.code, &here) {
            // What belongs to the same module is its own business, and so is a child's.
            if import.starts_with(&here) {
                continue;
            }
            match rank_of(&import) {
                Some(theirs) if theirs <= rank => {}
                Some(_) => {
                    wrong.push(format!("{} imports {} upwards", file.name, import.join("::")));
                }
                None => wrong.push(format!("{}: {} has no rank", file.name, import.join("::"))),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_rank_belongs_to_a_module() {
    let modules: Vec<String> = library().iter().map(|f| module_path(&f.name).join("::")).collect();
    for name in RANKS.iter().copied().flatten() {
        let children = format!("{name}::");
        assert!(
            modules.iter().any(|m| m == name || m.starts_with(&children)),
            "{name} is no module"
        );
    }
}

#[test]
fn unsafe_code_is_where_it_is_expected() {
    let mut found = Vec::new();
    for file in sources("src") {
        let uses = file.code.lines().any(|line| has_word(line, "unsafe"));
        let opens = file.code.contains("#![expect(") && file.code.contains("unsafe_code,");
        assert_eq!(uses, opens, "{}: `unsafe` without the attribute, or the reverse", file.name);
        if uses {
            let blocks = file.code.lines().filter(|l| l.contains("unsafe {")).count();
            let reasons = file.text.lines().filter(|l| l.trim().starts_with("// SAFETY:")).count();
            assert!(reasons >= blocks, "{}: {blocks} blocks, {reasons} arguments", file.name);
            found.push(file.name);
        }
    }
    assert_eq!(found, UNSAFE);
    assert!(source("src/lib.rs").code.contains("#![deny(unsafe_code"));
}

#[test]
fn only_the_printer_prints() {
    let command = sources("crates/cli/src").into_iter().filter(|f| f.name != PRINTER);
    for file in sources("src").into_iter().chain(command) {
        for (number, line) in file.code.lines().enumerate() {
            for word in ["println!", "print!", "eprintln!", "eprint!", "dbg!"] {
                assert!(
                    !line.trim_start().starts_with(word),
                    "{}:{}: {line}",
                    file.name,
                    number + 1
                );
            }
        }
    }
}

#[test]
fn nothing_is_unwrapped_outside_tests() {
    for file in ["src", "crates/cli/src"].into_iter().flat_map(sources) {
        let code = file.code.split("#[cfg(test)]\nmod ").next().unwrap();
        for word in [".unwrap()", "todo!(", "unimplemented!("] {
            assert!(!code.contains(word), "{} holds {word}", file.name);
        }
    }
}

#[test]
fn files_end_before_nobody_reads_them() {
    let trees = ["src", "crates", "tests", "benches", "examples", "python-wasm", "fuzz"];
    for file in trees.into_iter().flat_map(sources) {
        let lines = file.text.lines().count();
        assert!(lines <= LONGEST_FILE, "{}: {lines} lines", file.name);
    }
    let lines = source("src/lib.rs").text.lines().count();
    assert!(lines < LONGEST_TABLE_OF_CONTENTS, "src/lib.rs: {lines} lines");
}

#[test]
fn no_test_is_left_out_and_no_example_either() {
    let ignored = concat!("#[", "ignore");
    let fences = [concat!("```", "ignore"), concat!("```rust,", "ignore")];
    for file in ["src", "crates", "tests", "benches", "examples"].into_iter().flat_map(sources) {
        assert!(!file.text.contains(ignored), "{} has a test that does not run", file.name);
        for fence in fences {
            assert!(
                !file.text.contains(fence),
                "{} has an example that does not compile",
                file.name
            );
        }
    }
}

#[test]
fn the_reader_of_imports_reads_them() {
    let code = "use crate::a::{b::C, d::{self, E}};\nuse super::f;\nlet x = crate::g::h();\n\
                pub use own::Thing;";
    let found = imports(code, &["m".into(), "n".into()]);
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["a::b::C", "a::d", "a::d::E", "g::h", "m::f"]);
}

/// A source file.
struct Source {
    /// Its path from the top of the project.
    name: String,
    text: String,
    /// The text without comments.
    code: String,
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source(name: &str) -> Source {
    let text = fs::read_to_string(top().join(name)).unwrap();
    let code = text.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    Source {
        name: name.to_owned(),
        text,
        code,
    }
}

/// A line up to its comment. A `//` in a string ends it as well, which hides no import.
fn without_comment(line: &str) -> &str {
    line.find("//").map_or(line, |at| &line[..at])
}

/// The Rust and Python files below a directory, sorted by path.
fn sources(directory: &str) -> Vec<Source> {
    let mut found = BTreeMap::new();
    let mut rest: Vec<PathBuf> = vec![top().join(directory)];
    while let Some(directory) = rest.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                rest.push(path);
            } else if path.extension().is_some_and(|e| e == "rs" || e == "py") {
                let name = path.strip_prefix(top()).unwrap().to_str().unwrap().replace('\\', "/");
                found.insert(name.clone(), source(&name));
            }
        }
    }
    found.into_values().collect()
}

/// The files of the library's modules, but for the folders' tables of contents.
fn library() -> Vec<Source> {
    let mut files = sources("src");
    files.retain(|f| !["src/lib.rs", "src/api.rs"].contains(&f.name.as_str()));
    files
}

/// `src/image/bake.rs` is `image::bake`.
fn module_path(name: &str) -> Vec<String> {
    let path = name.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// The rank of the longest known path that a path begins with.
fn rank_of(path: &[String]) -> Option<usize> {
    (1..=path.len()).rev().find_map(|length| {
        let prefix = path[..length].join("::");
        RANKS.iter().position(|names| names.contains(&prefix.as_str()))
    })
}

/// Every path into this crate that `code`, which is the module `here`, names.
fn imports(code: &str, here: &[String]) -> Vec<Vec<String>> {
    let parent = &here[..here.len() - 1];
    let mut found = Vec::new();
    for (root, base) in [("crate::", &[][..]), ("use super::", parent)] {
        let mut rest = code;
        while let Some(at) = rest.find(root) {
            rest = &rest[at + root.len()..];
            tree(rest, &mut base.to_vec(), &mut found);
        }
    }
    found.retain(|path| !path.is_empty());
    found
}

/// Reads one path or use-tree below `path`, and returns what comes after it.
fn tree<'a>(text: &'a str, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut inside) = text.strip_prefix('{') {
        loop {
            inside = tree(inside, &mut path.clone(), found).trim_start();
            match inside.strip_prefix(',') {
                Some(more) if !more.trim_start().starts_with('}') => inside = more,
                Some(more) => return more.trim_start().strip_prefix('}').unwrap_or(more),
                None => return inside.strip_prefix('}').unwrap_or(inside),
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if !word.is_empty() && word != "self" {
        path.push(word.to_owned());
    }
    if let Some(rest) = rest.strip_prefix("::") {
        return tree(rest, path, found);
    }
    found.push(path.clone());
    rest
}

fn has_word(line: &str, word: &str) -> bool {
    let boundary = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    line.match_indices(word).any(|(at, _)| {
        boundary(line[..at].chars().next_back()) && boundary(line[at + word.len()..].chars().next())
    })
}
