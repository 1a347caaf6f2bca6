//! Data from MCP clients. The first byte selects its kind.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    belljar_server::fuzzing::parse_mcp(bytes);
});
