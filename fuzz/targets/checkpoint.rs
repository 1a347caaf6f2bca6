//! Checkpoints of sessions. The first byte of an input says how to read the rest: as a whole file, or as
//! the text of one whose names and sums are made to fit. The latter gets past the compression and the
//! sums, which hardly any mutation of a file would.
#![no_main]

use belljar::fuzzing::{checkpoint_of, parse_checkpoint};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((how, rest)) = bytes.split_first() else {
        return;
    };
    match how % 4 {
        0 => parse_checkpoint(rest, false),
        1 => parse_checkpoint(rest, true),
        _ => parse_checkpoint(&checkpoint_of(rest), true),
    };
});
