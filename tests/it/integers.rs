//! Numbers are the same as on Linux: values, types and warnings of more than a thousand expressions
//! match native numpy, pandas and scipy, except for a list in the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use belljar::Request;
use serde_json::Value;

use crate::calls;
use crate::host;
use crate::support::{program, run, succeeded};

/// The result of each expression.
type Found = BTreeMap<String, Value>;

const PROGRAM: &str = "expressions";

/// The expressions, and the image in which they are evaluated.
const CORPORA: [(&str, &str, usize); 3] =
    [("expressions", "data", 1_000), ("warnings", "data", 140), ("libraries", "science", 180)];

#[test]
fn expressions_give_what_they_give_on_linux() {
    gives_what_it_gives_on_linux(CORPORA[0]);
}

/// Without the flags, nothing warns; with saturating conversions, values differ.
#[test]
fn numpy_warns_and_converts_as_on_linux() {
    gives_what_it_gives_on_linux(CORPORA[1]);
}

/// With values of 32 bits, most sums and products here would differ.
#[test]
fn libraries_give_what_they_give_on_linux() {
    gives_what_it_gives_on_linux(CORPORA[2]);
}

fn gives_what_it_gives_on_linux((corpus, image, least): (&str, &str, usize)) {
    let expected = expected();
    let known = known_differences();
    let request = Request::new(program(PROGRAM))
        .image(image)
        .file("expressions.txt", expressions(corpus))
        .memory_mib(1024)
        .timeout(Duration::from_mins(2));
    let run = run(request);
    succeeded(&run.outcome);
    let found: Found = serde_json::from_slice(&run.read("found.json").unwrap()).unwrap();

    assert!(found.len() >= least, "only {} expressions", found.len());
    let mut wrong = Vec::new();
    for (expression, here) in &found {
        let linux =
            expected.get(expression).unwrap_or_else(|| panic!("{expression} is not recorded"));
        match known.get(expression) {
            None if here != linux => wrong.push(format!("{expression}\n  {here}\n  {linux}")),
            Some(_) if here == linux => wrong.push(format!("{expression} is not different")),
            Some((said_linux, said_here)) => {
                assert!(linux.to_string().contains(said_linux), "{expression}: {linux}");
                assert!(here.to_string().contains(said_here), "{expression}: {here}");
            }
            None => {}
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn documented_differences_are_tried() {
    let tried: Vec<_> = CORPORA.iter().map(|(corpus, ..)| expressions(corpus)).collect();
    let called: Vec<_> = calls::libraries().flat_map(calls::texts).collect();
    let tried: BTreeSet<_> = tried
        .iter()
        .flat_map(|text| text.lines())
        .chain(called.iter().map(String::as_str))
        .collect();
    let known = known_differences();
    let unknown: Vec<_> = known.keys().filter(|name| !tried.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "documented, but not tried: {unknown:?}");
}

/// The recorded values match those of this host.
#[test]
fn the_host_says_what_was_recorded() {
    let modules = "import numpy, pandas, scipy, sklearn, statsmodels, networkx, joblib";
    if !host::python().args(["-c", modules]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: the host's Python has no numpy, pandas, scipy ...");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let all = CORPORA.map(|(corpus, ..)| expressions(corpus)).join("\n");
    fs::write(dir.path().join("expressions.txt"), all).unwrap();
    let output = host::run(PROGRAM, dir.path(), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = fs::read(dir.path().join("found.json")).unwrap();
    let found: Found = serde_json::from_slice(&found).unwrap();
    for (expression, expected) in expected() {
        assert_eq!(found.get(&expression), Some(&expected), "{expression}");
    }
}

fn expressions(corpus: &str) -> String {
    read(&format!("tests/integers/{corpus}.txt"))
}

fn expected() -> Found {
    serde_json::from_str(&read("tests/integers/expected.json")).unwrap()
}

/// The table in the documentation: an expression, and its results on Linux and here.
pub fn known_differences() -> BTreeMap<String, (String, String)> {
    let text = read("docs/reference/numbers.md");
    let head = "| expression | on Linux | here |";
    let table = text.split(head).nth(1).expect("the table is there");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cell = |cell: &str| cell.trim_matches(['|', ' ', '`']).to_owned();
        let cells: Vec<_> = row.split(" | ").map(cell).collect();
        let [expression, linux, here] = cells.try_into().expect("three cells");
        (expression, (linux, here))
    })
    .collect()
}

pub fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
