//! Conditions and ranges of file requests, and keys. The first byte selects one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar_server::fuzzing::parse_http(bytes);
});
