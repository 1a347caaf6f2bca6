//! The structure of the source, which neither the compiler nor clippy checks: imports point towards
//! the start of the flow and form no circle, `unsafe` is limited to named files, files stay
//! readable, and links in documents work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the library, bottom up: a module imports only from lines above its own line, or
/// from its own line. The longest path that fits counts. The lines of a room follow each other.
const RANKS: &[&[&str]] = &[
    &["limits", "util"],
    // Requests and outcomes.
    &["api::setters", "api::outcome"],
    &["api::watch", "api::interrupt", "api::tenant", "api::tool"],
    &["api::request", "api::refusal"],
    &["api::policy", "api::json"],
    &["memory"],
    &["workspace"],
    // Files in the cache and in bundles: the module, its code, images.
    &["artifact::cache"],
    &["artifact"],
    &["artifact::bundle"],
    &["artifact::image"],
    &["store"],
    // An image brought to life.
    &["sandbox::calls"],
    &["sandbox"],
    // The protocol with the runner.
    &["guest"],
    &["guest::interpreter", "guest::fatal"],
    // Making and choosing images: they are made by running code.
    &["image::recipe"],
    &["image::choose", "image::error"],
    &["image::bake"],
    &["image::contents"],
    &["image::catalog"],
    &["image::bundled"],
    &["image::loader", "image"],
    // One type for all errors.
    &["error::session"],
    &["error"],
    // What runs share, and one run.
    &["engine::admission"],
    &["engine", "engine::run::judge"],
    &["engine::run::outcome"],
    &["engine::run"],
    &["engine::running"],
    &["session"],
    // The entry points.
    &["runtime::block_on", "runtime::doctor", "runtime::licenses"],
    &["runtime::images", "runtime::pack"],
    &["runtime"],
    &["runtime::blocking"],
    &["cluster"],
    &["fuzzing", "testing"],
    &["tests"],
];

/// The files that may hold `unsafe`; each opens with the reason.
const UNSAFE: &[&str] = &[
    "src/artifact/code.rs",
    "src/artifact/target.rs",
    "src/memory/creator.rs",
    "src/memory/stacks.rs",
    "src/sandbox/drive.rs",
    "src/sandbox/escape.rs",
    "src/sandbox/interrupt.rs",
    "crates/memory/src/heap/glibc.rs",
    "crates/memory/src/pages.rs",
    "crates/memory/src/pages/page_map.rs",
    "crates/memory/src/sys/linux/pagemap.rs",
    "crates/memory/src/sys/linux/process.rs",
    "crates/memory/src/sys/linux/region.rs",
    "crates/memory/src/sys/linux/stacks.rs",
    "crates/memory/src/sys/linux/view.rs",
    "crates/memory/src/sys/linux/watch.rs",
    "crates/memory/src/sys/mapping/backing.rs",
    "crates/memory/src/sys/mapping/space.rs",
    "crates/memory/src/sys/mapping/windows/backing.rs",
    "crates/memory/src/sys/mapping/windows/space.rs",
    "crates/memory/src/sys/not_linux.rs",
    "crates/memory/src/sys/tests.rs",
    "crates/memory/src/tracker.rs",
    "crates/lockdown/src/linux/calls.rs",
    "crates/lockdown/src/linux/capabilities.rs",
    "crates/lockdown/src/linux/files.rs",
    "crates/lockdown/src/linux/settings.rs",
    "crates/lockdown/src/linux/threads.rs",
    "crates/lockdown/src/macos.rs",
    "crates/lockdown/src/windows.rs",
    "crates/server/src/server/inherited.rs",
    "crates/code-mode/src/child.rs",
];

/// Public names at the root of the library, modules included.
const MOST_NAMES: usize = 30;

/// Source folders whose modules must not import each other in a circle.
const CRATES: [&str; 8] = [
    "src",
    "crates/cli/src",
    "crates/code-mode/src",
    "crates/kernel/src",
    "crates/memory/src",
    "crates/passes/src",
    "crates/server/src",
    "crates/value/src",
];

const LONGEST_FILE: usize = 800;
const LONGEST_TABLE_OF_CONTENTS: usize = 150;

#[test]
fn modules_import_towards_the_start_of_the_flow() {
    let modules = Modules::of("src");
    let mut wrong = Vec::new();
    for (name, imports) in &modules.imports {
        let Some(rank) = rank_of(name) else {
            wrong.push(format!("{name} has no rank"));
            continue;
        };
        for import in imports {
            match rank_of(import) {
                Some(theirs) if theirs <= rank => {}
                Some(_) => wrong.push(format!("{name} imports {import} upwards")),
                None => wrong.push(format!("{name}: {import} has no rank")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A folder's module file and its contents may import each other; other modules may not.
#[test]
fn no_modules_import_each_other_in_a_circle() {
    for top in CRATES {
        let circles = Modules::of(top).circles();
        assert!(circles.is_empty(), "{top}: {circles:#?}");
    }
}

#[test]
fn every_rank_belongs_to_a_module() {
    let modules = Modules::of("src");
    for name in RANKS.iter().copied().flatten() {
        assert!(modules.imports.keys().any(|m| m == name || below(name, m)), "{name} is no module");
    }
}

/// Otherwise two rooms could import each other although no two of their modules do.
#[test]
fn the_ranks_of_a_room_follow_each_other() {
    let room = |name: &'static str| name.split("::").next().unwrap();
    let mut rooms: Vec<&str> = RANKS.iter().copied().flatten().copied().map(room).collect();
    rooms.dedup();
    let distinct: BTreeSet<&str> = rooms.iter().copied().collect();
    assert_eq!(rooms.len(), distinct.len(), "{rooms:?}");
}

/// Clippy checks that each block argues why it is sound.
#[test]
fn unsafe_code_is_where_it_is_expected() {
    let mut found = Vec::new();
    for file in [
        "src",
        "crates/memory/src",
        "crates/lockdown/src",
        "crates/server/src",
        "crates/kernel/src",
        "crates/code-mode/src",
        "crates/passes/src",
        "crates/value/src",
    ]
    .into_iter()
    .flat_map(sources)
    {
        let uses = file.code.lines().any(|line| has_word(line, "unsafe"));
        let opens = file.code.contains("#![expect(") && file.code.contains("unsafe_code,");
        assert_eq!(uses, opens, "{}: `unsafe` without the attribute, or the reverse", file.name);
        if uses {
            found.push(file.name);
        }
    }
    assert_eq!(found, UNSAFE);
    assert!(source("src/lib.rs").code.contains("#![deny(unsafe_code"));
}

/// A newcomer reads the root first; everything else is in the public modules.
#[test]
fn the_root_has_few_names() {
    let code = source("src/lib.rs").code;
    let mut names = Vec::new();
    for item in code.split('\n').filter(|line| line.starts_with("pub ")) {
        match item.strip_prefix("pub use ") {
            Some(item) => {
                let mut found = Vec::new();
                tree(item, &mut Vec::new(), &mut found);
                names.extend(found.into_iter().map(|path| path.join("::")));
            }
            None => names.push(item.to_owned()),
        }
    }
    assert!(names.len() > 20 && names.len() <= MOST_NAMES, "{}: {names:#?}", names.len());
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
fn links_in_documents_lead_somewhere() {
    let mut broken = Vec::new();
    let mut documents = files(top(), &["md"]);
    documents.retain(|name| !name.contains("target/") && !name.contains("node_modules/"));
    for name in &documents {
        let text = without_fences(&fs::read_to_string(top().join(name)).unwrap());
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let link = link.0;
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = top().join(name).parent().unwrap().to_owned();
            let target = if path.is_empty() {
                top().join(name)
            } else {
                folder.join(path)
            };
            let there = target.exists()
                && (heading.is_empty()
                    || headings(&fs::read_to_string(&target).unwrap()).contains(heading));
            if !there {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(documents.len() >= 10, "{documents:?}");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_file_that_answers_a_question_of_the_architecture_exists() {
    let page = fs::read_to_string(top().join("docs/internals/architecture.md")).unwrap();
    let section = page.split("## Where to find what").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<_> = section.lines().filter(|line| line.contains("? |")).collect();
    assert!(rows.len() >= 20, "{} questions", rows.len());
    for row in rows {
        let answer = row.split("? |").nth(1).unwrap();
        let files: Vec<_> = answer.split('`').skip(1).step_by(2).collect();
        assert!(!files.is_empty(), "no answer: {row}");
        for file in files {
            assert!(top().join(file).is_file(), "{file} does not exist: {row}");
        }
    }
}

#[test]
fn the_reader_of_imports_reads_them() {
    let code = "use crate::a::{b::C, d::{self, E}};\nuse super::f;\nlet x = crate::g::h();\n\
                pub use own::Thing;\nuse super::super::k::L;";
    let found = imports(code, &["j".into(), "m".into(), "n".into()]);
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["a::b::C", "a::d", "a::d::E", "g::h", "j::m::f", "j::k::L"]);
}

#[test]
fn circles_are_found_and_doors_are_seen_through() {
    let module = |name: &str, code: &str| (name.to_owned(), code.to_owned());
    let circles = |code: &[(String, String)]| Modules::new(code.iter().cloned()).circles();
    let one_way =
        [module("a", "use crate::b::X;"), module("b", ""), module("c", "use crate::a::Y;")];
    assert!(circles(&one_way).is_empty());
    let long = [
        module("a", "use crate::b::X;"),
        module("b", "use crate::c::X;"),
        module("c", "use crate::a::X;"),
        module("d", "use crate::a::X;"),
    ];
    assert_eq!(circles(&long), ["a imports b", "b imports c", "c imports a"]);
    let family = [module("a", "use b::X;"), module("a::b", "use super::Y;")];
    assert!(circles(&family).is_empty());
    // Two children import each other via their parent's re-exports.
    let through = [
        module("a", "pub(crate) use b::X;\npub use c::{self, Y};"),
        module("a::b", "use super::Y;"),
        module("a::c", "use crate::a::X;"),
    ];
    assert_eq!(circles(&through), ["a::b imports a::c", "a::c imports a::b"]);
}

/// A source file.
struct Source {
    /// Path relative to the top of the project.
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

/// A line without its comment. A `//` in a string ends it as well, which hides no import.
fn without_comment(line: &str) -> &str {
    line.find("//").map_or(line, |at| &line[..at])
}

/// The Rust and Python files below a directory, sorted by path.
fn sources(directory: &str) -> Vec<Source> {
    files(&top().join(directory), &["rs", "py"]).iter().map(|name| source(name)).collect()
}

/// The paths of the files with these endings below a directory, sorted.
fn files(directory: &Path, endings: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = rest.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                rest.push(path);
            } else if path.extension().is_some_and(|e| endings.iter().any(|known| e == *known)) {
                found.push(path.strip_prefix(top()).unwrap().to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    found.sort();
    found
}

/// The modules of a crate, each with the modules that it imports from, except itself, its ancestors
/// and its descendants. Re-exports of children count as the children's.
struct Modules {
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl Modules {
    /// The modules in the files below a directory, except the folders' tables of contents.
    fn of(directory: &str) -> Self {
        let contents = ["lib", "main", "api"];
        Self::new(sources(directory).into_iter().filter_map(|file| {
            let path = file.name.strip_prefix(directory)?.trim_start_matches('/');
            let name = path.trim_end_matches(".rs").replace('/', "::");
            let code = file.code.split("#[cfg(test)]\nmod tests {").next()?.to_owned();
            (!contents.contains(&name.as_str())).then_some((name, code))
        }))
    }

    fn new(code: impl Iterator<Item = (String, String)>) -> Self {
        let code: BTreeMap<String, String> = code.collect();
        let path = |name: &str| name.split("::").map(str::to_owned).collect::<Vec<_>>();
        let shown: BTreeMap<&str, Vec<Vec<String>>> = code
            .iter()
            .map(|(name, text)| {
                let mut found = Vec::new();
                for child in code.keys().filter(|other| below(name, other)) {
                    let root = format!("use {}::", child[name.len() + 2..].trim());
                    for (at, _) in text.match_indices(&root) {
                        tree(&text[at + root.len()..], &mut path(child), &mut found);
                    }
                }
                (name.as_str(), found)
            })
            .collect();
        let home = |import: Vec<String>| home(import, &shown);
        let imports = code
            .iter()
            .map(|(name, text)| {
                let found = imports(text, &path(name)).into_iter().map(home);
                let others = found.filter(|o| o != name && !below(name, o) && !below(o, name));
                (name.clone(), others.collect())
            })
            .collect();
        Self { imports }
    }

    /// The imports that are part of a circle, or lead from one circle to another.
    fn circles(mut self) -> Vec<String> {
        loop {
            let before: usize = self.imports.values().map(BTreeSet::len).sum();
            // Modules without imports, or that no module imports, are in no circle.
            let imported: BTreeSet<String> = self.imports.values().flatten().cloned().collect();
            self.imports.retain(|name, imports| !imports.is_empty() && imported.contains(name));
            let left: BTreeSet<String> = self.imports.keys().cloned().collect();
            self.imports.values_mut().for_each(|imports| imports.retain(|i| left.contains(i)));
            if self.imports.values().map(BTreeSet::len).sum::<usize>() == before {
                break;
            }
        }
        let each = |(name, imports): (&String, &BTreeSet<String>)| {
            imports.iter().map(|import| format!("{name} imports {import}")).collect::<Vec<_>>()
        };
        self.imports.iter().flat_map(each).collect()
    }
}

/// Whether a module is in another.
fn below(parent: &str, name: &str) -> bool {
    name.strip_prefix(parent).is_some_and(|rest| rest.starts_with("::"))
}

/// The module that a path leads to, resolving re-exports of children.
fn home(mut import: Vec<String>, shown: &BTreeMap<&str, Vec<Vec<String>>>) -> String {
    loop {
        let known = (1..=import.len()).rev().find_map(|length| {
            let name = import[..length].join("::");
            shown.get(name.as_str()).map(|shown| (name, length, shown))
        });
        let Some((name, length, shown)) = known else {
            return import.join("::");
        };
        let inner = shown.iter().find(|path| import.get(length) == path.last());
        let Some(inner) = inner else {
            return name;
        };
        let rest = import.split_off(length + 1);
        import.clone_from(inner);
        import.extend(rest);
    }
}

/// The rank of the longest known prefix of a module's path.
fn rank_of(name: &str) -> Option<usize> {
    let path: Vec<&str> = name.split("::").collect();
    (1..=path.len()).rev().find_map(|length| {
        let prefix = path[..length].join("::");
        RANKS.iter().position(|names| names.contains(&prefix.as_str()))
    })
}

/// Every path in `code`, of the module `here`, that leads into this crate.
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

/// Parses one path or use-tree below `path`, and returns the rest.
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
    match word {
        "" | "self" => {}
        "super" => drop(path.pop()),
        _ => path.push(word.to_owned()),
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

/// A document without its blocks of code.
fn without_fences(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The anchors of a document's headings.
fn headings(text: &str) -> BTreeSet<String> {
    let headings = without_fences(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            let text = line.trim_start_matches('#').trim().to_lowercase();
            text.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}
