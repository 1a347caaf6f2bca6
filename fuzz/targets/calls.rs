//! Frames in which a guest calls tools, one a line, in any order: answered or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|frames: &[u8]| {
    belljar::fuzzing::call_tools(frames);
});
