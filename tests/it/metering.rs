//! The fuel that guest code costs, and that all slow code is metered.

use std::time::{Duration, Instant};

use belljar::Request;
use belljar::outcome::ErrorKind;
use belljar::request::Deterministic;

use crate::support::{failed, run, still_serves, succeeded};

/// Programs that do something `N` times, and the fuel of ten thousand times more. A higher figure
/// means that the guest does more work. The cost of starting and ending a run does not matter here.
const COSTS: &[(&str, u64)] = &[
    ("for i in range(N): i * i", 15_359_744),
    ("n = 0\nwhile n < N: n += 1", 14_720_019),
    ("def f(x): return x\nfor i in range(N): f(i)", 17_050_268),
    ("for i in range(N): str(i % 100).zfill(8)", 31_803_323),
    ("d = dict.fromkeys(range(64))\nfor i in range(N): d[i & 63] = i", 21_120_204),
    ("x = 1.5\nfor i in range(N): x = x * 1.0000001", 15_360_000),
    ("bytes(N * 1000)", 10_000_067),
];

#[test]
fn work_costs_what_it_cost() {
    let fuel = |code: &str, times: u32| {
        let code = code.replace('N', &times.to_string());
        let outcome = run(Request::new(code).deterministic(Deterministic::default())).outcome;
        succeeded(&outcome);
        outcome.usage.fuel
    };
    for &(code, expected) in COSTS {
        let cost = fuel(code, 30_000) - fuel(code, 20_000);
        // The state of the allocator after the start depends on the image, which affects a few
        // iterations.
        assert!(cost.abs_diff(expected) * 50 <= expected, "{code:?}: {cost}, not {expected}");
        let again = fuel(code, 30_000) - fuel(code, 20_000);
        assert_eq!(again, cost, "{code:?}");
    }
}

#[test]
fn filling_gigabytes_stops_at_the_deadline() {
    for code in [
        "while True: bytearray(2_000_000_000)",
        "while True: b'x' * 2_000_000_000",
        "while True: bytearray(b'xyz') * 650_000_000",
        "m = memoryview(bytearray(1_200_000_000))\nwhile True: m[:-1] = m[1:]",
        "import numpy as np\nwhile True: np.full(250_000_000, 1.5)",
        "import numpy as np\nx = np.zeros(125_000_000)\nwhile True: x += 1",
    ] {
        let started = Instant::now();
        let request = Request::new(code).memory_mib(3_000).timeout(Duration::from_secs(1));
        let outcome = run(request).outcome;
        let late = started.elapsed().saturating_sub(Duration::from_millis(1_500));
        failed(&outcome, ErrorKind::Timeout);
        // The grace period ends after 1.5 s; a busy machine and freeing memory take the rest. numpy
        // fills 2 GB of memory without checks, each page for the first time.
        let most = Duration::from_secs(if code.contains("np.full") { 8 } else { 3 });
        assert!(late < most, "{code}: {late:?} late");
        println!("{code:?}: {:.0} ms, with the end {late:?} late", outcome.usage.wall_ms);
    }
    still_serves();
}

/// A loop of compiled code over more elements than memory can hold, with strides of zero: it does
/// not check its fuel, and is stopped after very many iterations.
#[test]
fn a_loop_that_does_not_look_ends_after_very_many_turns() {
    let code = "
import numpy as np
one = np.zeros(1, np.int8)
many = np.lib.stride_tricks.as_strided(one, (2_147_483_647,), (0,))
np.bitwise_or.reduce(many)
";
    let outcome = run(Request::new(code)).outcome;
    failed(&outcome, ErrorKind::Crash);
    assert_eq!(outcome.error_detail.unwrap().type_, "LongLoop");
    assert!(outcome.usage.fuel >= 1 << 34, "{}", outcome.usage.fuel);
    let outcome = run(Request::new(code).fuel(1_000_000_000)).outcome;
    failed(&outcome, ErrorKind::Fuel);
    still_serves();
}

/// Unchecked loops over an array end soon: the code around them is interrupted, and knows the line.
#[test]
fn a_loop_over_an_array_is_interrupted_behind_it() {
    for code in [
        "import numpy as np\nx = np.zeros(10_000_000)\nwhile True: x += 1",
        "x = bytes(60_000_000)\nn = 0\nwhile True: n += x.count(b'ab')",
    ] {
        let outcome = run(Request::new(code).timeout(Duration::from_secs(1))).outcome;
        failed(&outcome, ErrorKind::Timeout);
        assert_eq!(outcome.error_detail.and_then(|detail| detail.line), Some(3), "{code}");
        let outcome = run(Request::new(code).fuel(3_000_000_000)).outcome;
        failed(&outcome, ErrorKind::Fuel);
    }
}
