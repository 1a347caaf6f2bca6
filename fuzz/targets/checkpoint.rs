//! Checkpoints of sessions. The first byte of an input selects how to read the rest: as a whole
//! file, or as a text from which a file with valid names and checksums is made. The latter gets
//! past compression and checksums, which mutations of a file hardly do.
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
