//! Runs parsers of packages in `crates` on the corpora of the fuzz targets, and on damaged copies.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{target} has a small corpus");
    let named = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (named(path), std::fs::read(path).unwrap())).collect()
}

/// Checks that all inputs are valid, except those that once caused failures: `found_...`.
pub fn is_accepted(target: &str, parse: impl Fn(&[u8]) -> bool) {
    for (name, bytes) in corpus(target) {
        assert!(parse(&bytes) || name.starts_with("found_"), "{target}/{name}");
    }
}

/// Parses damaged inputs, which must not panic.
pub fn survives_damage(target: &str, parse: impl Fn(&[u8]) -> bool) {
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
