//! Programs that never end by themselves: all of them stop at the deadline, or a moment later.

use std::thread;
use std::time::Duration;

use belljar::{ErrorKind, Request};

use crate::host;
use crate::support::{program, programs_in, run, still_serves};

/// How long each may run.
const LIMIT: Duration = Duration::from_millis(500);
/// What stopping may take on top: the grace of a soft stop, and a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

macro_rules! stops {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                stops(stringify!($name));
            }
        )+

        #[test]
        fn every_program_is_run() {
            let mut named = vec![$(stringify!($name)),+];
            named.sort();
            assert_eq!(named, programs_in("stops"));
        }
    };
}

stops! {
    asyncio_wait
    c_loop
    comprehension
    compressed
    count
    destructor
    digits
    exit_hook
    factorial
    ignored_signal
    imported
    spin
    message
    naps
    needle
    numpy_loop
    numpy_svd
    own_handler
    power
    printing
    regex
    select_wait
    sleep
    sorting
    swallow
    swallow_finally
    tasks
    trace
}

#[track_caller]
fn stops(name: &str) {
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
        // Its own code had ended in time; what it left for the end was cut short.
        ("exit_hook", None) => None,
        // One that prints without end may also be stopped for that.
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

/// A soft stop says where the code was; it is the rule, not the exception.
#[test]
fn a_soft_stop_names_the_line() {
    for (name, lines) in
        [("spin", 3..=4), ("comprehension", 4..=4), ("naps", 5..=5), ("sleep", 4..=4)]
    {
        let request = Request::new(program(&format!("stops/{name}"))).timeout(LIMIT);
        let detail = run(request).outcome.error_detail.unwrap();
        let line = detail.line.unwrap_or_else(|| panic!("{name}: {detail:?}"));
        assert!(lines.contains(&line), "{name}: {detail:?}");
    }
}

/// None of them ends on the host, which has nothing that stops them.
#[test]
fn the_host_goes_on() {
    let names: Vec<String> = programs_in("stops")
        .iter()
        .map(|name| format!("stops/{name}"))
        .filter(|name| host::has_modules_of(name))
        .collect();
    assert!(names.len() >= 20);
    // A few at a time: each of them takes all of a processor.
    for names in names.chunks(4) {
        let mut running: Vec<_> = names.iter().map(|name| host::start(name)).collect();
        thread::sleep(Duration::from_millis(200));
        for program in &mut running {
            program.goes_on();
        }
    }
}
