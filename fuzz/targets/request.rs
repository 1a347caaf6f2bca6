//! A JSON request, as in a line of `belljar batch`: any bytes are a request or an error, and parsed
//! requests survive serialization.
#![no_main]

use belljar::request::{HostPaths, RunRequest};

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    let Ok(asked) = serde_json::from_slice::<RunRequest>(line) else {
        return;
    };
    let written = serde_json::to_vec(&asked).expect("what was read can be written");
    let again: RunRequest = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(again, asked);
    let _ = asked.into_request(HostPaths::Allowed);
});
