//! Messages from clients of a Jupyter kernel: the first byte selects the format.
#![no_main]

use belljar_kernel::fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((form, bytes)) = bytes.split_first() else {
        return;
    };
    match form % 3 {
        0 => drop(fuzzing::parse_frames(bytes)),
        1 => {
            let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            fuzzing::parse_message(&parts, "");
        }
        _ => {
            fuzzing::parse_websocket(bytes);
        }
    }
});
