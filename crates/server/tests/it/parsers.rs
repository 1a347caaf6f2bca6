//! All parsers of client input reject damaged input without panicking.

use std::path::Path;

use belljar_server::fuzzing;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};

type Parser = fn(&[u8]) -> bool;

const PARSERS: [(&str, Parser); 5] = [
    ("server_bodies", fuzzing::parse_bodies),
    ("server_e2b", fuzzing::parse_e2b),
    ("server_http", fuzzing::parse_http),
    ("server_mcp", fuzzing::parse_mcp),
    ("server_runners", fuzzing::parse_runners),
];

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{target} has a small corpus");
    let named = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (named(path), std::fs::read(path).unwrap())).collect()
}

/// The fuzzing corpora are valid client input. Inputs that once caused failures are named
/// `found_...`.
#[test]
fn the_corpora_are_taken() {
    for (target, parse) in PARSERS {
        for (name, bytes) in corpus(target) {
            let is_taken = parse(&bytes);
            assert!(is_taken || name.starts_with("found_"), "{target}/{name}");
        }
    }
}

#[test]
fn damage_is_survived() {
    for (target, parse) in PARSERS {
        let starts: Vec<_> = corpus(target).into_iter().map(|(_, bytes)| bytes).collect();
        let changes = prop::collection::vec((any::<Index>(), any::<u8>()), 0..8);
        let all = (prop::sample::select(starts), changes, any::<Index>(), any::<bool>());
        let config = Config {
            cases: 4_000,
            rng_seed: RngSeed::Fixed(7),
            failure_persistence: None,
            ..Config::default()
        };
        let survived = TestRunner::new(config).run(&all, |(mut bytes, changes, end, is_cut)| {
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if is_cut {
                bytes.truncate(end.index(bytes.len() + 1));
            }
            parse(&bytes);
            Ok(())
        });
        survived.unwrap_or_else(|error| panic!("{target}: {error}"));
    }
}
