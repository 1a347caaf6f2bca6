//! Endless recursion, in Python and through C code, costs at most the sandbox.

use std::time::Duration;

use belljar::Request;
use belljar::outcome::ErrorKind;

use crate::support::{program, run, still_serves};

/// Any end is accepted that affects only the guest, and after which the next run works.
pub fn survives(name: &str) {
    let code = format!("print('started')\n{}", program(&format!("recursion/{name}")));
    let outcome = run(Request::new(code).timeout(Duration::from_secs(3)).image("core")).outcome;
    assert!(outcome.stdout.starts_with("started\n"), "{name}: {outcome:#?}");
    if let Some(detail) = &outcome.error_detail {
        let expected = [
            ErrorKind::Crash,
            ErrorKind::Exception,
            ErrorKind::Memory,
            ErrorKind::Syntax,
            ErrorKind::Timeout,
        ];
        assert!(expected.contains(&detail.kind), "{name}: {outcome:#?}");
    }
    still_serves();
}

/// At the same time on every thread: a stack overflow affects only its own sandbox.
pub fn many_at_once() {
    std::thread::scope(|scope| {
        for name in
            ["plain", "mapped", "chained", "hashed", "sorted_key", "mapped", "plain", "deep"]
        {
            scope.spawn(move || survives(name));
        }
    });
}
