//! Tool calls of a guest: frames in any order, one per line, are answered or rejected.
#![no_main]

libfuzzer_sys::fuzz_target!(|frames: &[u8]| {
    belljar::fuzzing::call_tools(frames);
});
