//! What other MCP servers send to code mode. The first byte says which parser reads the rest.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar_code_mode::fuzzing::parse(bytes);
});
