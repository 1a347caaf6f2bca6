//! Typed values from a guest: any bytes are a value, which stays the same when it is written and read
//! again, or refused. What stands before the first NUL is the head, the rest are its bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar::fuzzing::parse_value(bytes);
});
