//! Conditions and ranges of requests for files, and keys. The first byte says which.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar_server::fuzzing::parse_http(bytes);
});
