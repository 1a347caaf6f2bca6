//! Frames for the codecs: any data have a result of the stated size or number, or none.
#![no_main]

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    belljar::fuzzing::convert(frame);
});
