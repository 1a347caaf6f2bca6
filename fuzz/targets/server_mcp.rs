//! What clients of MCP send, and what other servers answer. The first byte says which.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar_server::fuzzing::parse_mcp(bytes);
});
