//! A request as JSON, as `belljar batch` reads one from each line: any bytes are a request or an
//! error, and what was read is written so that it reads back the same.
#![no_main]

use belljar::{HostPaths, RunRequest};

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    let Ok(asked) = serde_json::from_slice::<RunRequest>(line) else {
        return;
    };
    let written = serde_json::to_vec(&asked).expect("what was read can be written");
    let again: RunRequest = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(again, asked);
    let _ = asked.into_request(HostPaths::Allowed);
});
