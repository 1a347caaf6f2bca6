//! All parsers of client data, with damaged inputs: they return errors, and never panic.

use std::path::Path;

use belljar_kernel::fuzzing;
use proptest::prelude::*;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/jupyter");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Whether the format named by the first byte accepts it.
fn parse(bytes: &[u8]) -> bool {
    let Some((form, bytes)) = bytes.split_first() else {
        return false;
    };
    match form % 3 {
        0 => fuzzing::parse_frames(bytes).is_ok_and(|messages| messages > 0),
        1 => {
            let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            fuzzing::parse_message(&parts, "")
        }
        _ => fuzzing::parse_websocket(bytes) > 0,
    }
}

#[test]
fn the_corpus_is_taken() {
    let corpus = corpus();
    assert!(corpus.len() >= 5);
    for bytes in corpus {
        assert!(parse(&bytes), "{}", String::from_utf8_lossy(&bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn damage_is_survived(
        start in prop::sample::select(corpus()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = start;
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if is_cut {
            bytes.truncate(end.index(bytes.len() + 1));
        }
        parse(&bytes);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        parse(&bytes);
    }
}
