//! Typed values from a guest: any bytes are a value that survives serialization, or rejected. The
//! head ends at the first NUL; the rest are its bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar::fuzzing::parse_value(bytes);
});
