//! Frames that ask to decompress or compress: any data have a result of the stated size, or none.
#![no_main]

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    belljar::fuzzing::convert(frame);
});
