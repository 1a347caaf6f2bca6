//! Runs the parsers of MCP server messages on the fuzz corpus and on damaged copies of it.

use std::path::Path;

use belljar_code_mode::fuzzing::parse;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/code_mode");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut inputs: Vec<_> = entries
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 5, "the corpus is small");
    inputs
}

/// The corpus consists of server messages. Names of past crash inputs start with `found_`.
#[test]
fn the_corpus_is_accepted() {
    for (name, bytes) in corpus() {
        assert!(parse(&bytes) || name.starts_with("found_"), "{name}");
    }
}

#[test]
fn damaged_messages_cause_no_panic() {
    let starts: Vec<_> = corpus().into_iter().map(|(_, bytes)| bytes).collect();
    let changes = prop::collection::vec((any::<Index>(), any::<u8>()), 0..8);
    let inputs = (prop::sample::select(starts), changes, any::<Index>(), any::<bool>());
    let config = Config {
        cases: 4_000,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..Config::default()
    };
    let survived = TestRunner::new(config).run(&inputs, |(mut bytes, changes, end, is_cut)| {
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
    survived.unwrap();
}
