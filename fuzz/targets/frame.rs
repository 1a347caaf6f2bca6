//! Frames that a guest sends through the door: any bytes are a frame of the protocol or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    belljar::fuzzing::parse_frame(frame);
});
