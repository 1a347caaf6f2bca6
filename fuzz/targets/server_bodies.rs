//! Request bodies that are parsed in pieces: lines of a batch, and forms. The first byte selects
//! one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar_server::fuzzing::parse_bodies(bytes);
});
