//! Data from clients of Piston, Judge0 and LibreChat. The first byte selects its kind.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar_server::fuzzing::parse_runners(bytes);
});
