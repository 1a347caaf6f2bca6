//! Frames of a guest: any bytes are a valid frame or rejected.
#![no_main]

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    belljar::fuzzing::parse_frame(frame);
});
