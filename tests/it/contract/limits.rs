//! Items 3, 4 and 20: all resources are limited, and usage is reported.

use std::time::Duration;

use belljar::Request;
use belljar::outcome::ErrorKind;

use crate::support::{failed, outcome, run, succeeded};

#[test]
fn contract_03_the_limit_is_named_as_the_caller_wrote_it() {
    for (seconds, text) in [(0.25, "0.25"), (1.0, "1"), (0.5, "0.5")] {
        let request = Request::new("while True: pass").timeout(Duration::from_secs_f64(seconds));
        let outcome = run(request).outcome;
        let expected = format!("Code execution timed out after {text} seconds");
        assert_eq!(outcome.error, Some(expected));
    }
}

#[test]
fn contract_03_time_asleep_and_computing_count_alike() {
    for code in ["import time\ntime.sleep(10)", "while True: pass"] {
        let outcome = run(Request::new(code).timeout(Duration::from_millis(300))).outcome;
        failed(&outcome, ErrorKind::Timeout);
        let wall = outcome.usage.wall_ms;
        assert!((290.0..5000.0).contains(&wall), "{code}: {wall} ms");
    }
}

#[test]
fn contract_04_the_image_is_not_counted() {
    // The image of pandas is larger than this limit, and has a few MiB to spare.
    let code = "import pandas\nx = bytearray(32 << 20)";
    let outcome = run(Request::new(code).memory_mib(40)).outcome;
    succeeded(&outcome);
    let peak = outcome.usage.memory_peak_bytes;
    assert!((24 << 20..=40 << 20).contains(&peak), "{peak}");
}

#[test]
fn contract_04_memory_that_is_not_used_is_not_counted() {
    let outcome = outcome("print(1)");
    assert!(outcome.usage.memory_peak_bytes < 4 << 20, "{:?}", outcome.usage);
}

#[test]
fn contract_20_fuel_bounds_work_and_names_the_line() {
    let code = "print('start')\nn = 0\nwhile True:\n    n += 1\n";
    let outcome = run(Request::new(code).fuel(500_000_000)).outcome;
    failed(&outcome, ErrorKind::Fuel);
    assert_eq!(outcome.stdout, "start\n");
    let detail = outcome.error_detail.unwrap();
    assert!(matches!(detail.line, Some(3 | 4)), "{detail:?}");
    assert!(outcome.usage.fuel >= 500_000_000, "{:?}", outcome.usage);
}

#[test]
fn contract_20_fuel_that_suffices_is_not_in_the_way() {
    let outcome = run(Request::new("print(sum(range(1000)))").fuel(1_000_000_000)).outcome;
    succeeded(&outcome);
    assert!(outcome.usage.fuel < 100_000_000, "{:?}", outcome.usage);
}

#[test]
fn contract_20_what_was_used_is_said() {
    let code = "import sys, time\nprint('12345', end='')\nsys.stderr.write('123')\n\
                open('a.bin', 'wb').write(bytes(1000))\nopen('b.bin', 'wb').write(bytes(500))\n\
                time.sleep(0.05)";
    let usage = outcome(code).usage;
    assert_eq!((usage.stdout_bytes, usage.stderr_bytes, usage.workspace_bytes), (5, 3, 1500));
    assert!((50.0..5000.0).contains(&usage.wall_ms), "{usage:?}");
    assert!(usage.fuel > 100_000, "{usage:?}");
}
