//! All parsers of client data, with damaged inputs: they return errors, and never panic.

#[path = "../../../../fuzz/corpus.rs"]
mod corpus;

use belljar_kernel::fuzzing;
use proptest::prelude::*;

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
    corpus::is_accepted("jupyter", parse);
}

#[test]
fn damage_is_survived() {
    corpus::survives_damage("jupyter", parse);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        parse(&bytes);
    }
}
