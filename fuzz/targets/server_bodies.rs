//! What is read piece by piece of a request: lines of a batch, and forms. The first byte says which.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar_server::fuzzing::parse_bodies(bytes);
});
