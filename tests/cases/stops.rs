//! Programs that never end by themselves: all of them stop at the deadline, or a moment later.

use std::time::Duration;

use belljar::Request;
use belljar::outcome::ErrorKind;

use crate::support::{program, run, still_serves};

/// Time limit of each.
const LIMIT: Duration = Duration::from_millis(500);
/// Additional time for stopping: the grace period of a soft stop, on a busy machine. A program that
/// is not stopped takes forever.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn stops(name: &str) {
    let request = Request::new(program(&format!("stops/{name}"))).timeout(LIMIT).memory_mib(1024);
    let image = if name.starts_with("numpy") {
        "data"
    } else {
        "core"
    };
    let outcome = run(request.image(image)).outcome;
    assert!(outcome.stdout.starts_with("started\n"), "{name}: {outcome:#?}");
    let kind = outcome.error_detail.as_ref().map(|detail| detail.kind);
    let expected = match (name, kind) {
        // Its own code ended in time; its exit handlers were cut short.
        ("exit_hook", None) => None,
        // A program that prints endlessly may also be stopped for that.
        ("printing", Some(ErrorKind::Output)) => {
            Some("Code execution printed far more than its limit")
        }
        _ => Some("Code execution timed out after 0.5 seconds"),
    };
    assert_eq!(outcome.error.as_deref(), expected, "{name}: {outcome:#?}");
    assert!(!outcome.stderr.contains("belljar"), "{name} shows frames of ours: {}", outcome.stderr);
    let wall = Duration::from_secs_f64(outcome.usage.wall_ms / 1000.0);
    assert!(wall >= LIMIT || name == "printing", "{name} was stopped early, after {wall:?}");
    assert!(wall <= LIMIT + PATIENCE, "{name} was stopped only after {wall:?}");
    still_serves();
}
