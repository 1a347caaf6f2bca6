//! What the clients of other code runners send: Piston's, Judge0's, LibreChat's. The first byte says which.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar_server::fuzzing::parse_runners(bytes);
});
