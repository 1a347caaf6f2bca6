//! RequestLimits of a run: time, fuel, memory and output.

use std::time::{Duration, Instant};

use belljar::outcome::{ErrorKind, Truncated};
use belljar::{Interrupt, Outcome, Request, RequestLimits, Runtime};

use super::{failed, guest, outcome, run, runtime, succeeded};

const MIB: u64 = 1 << 20;

/// The line at which a run was interrupted.
fn line(outcome: &Outcome) -> Option<u64> {
    outcome.error_detail.as_ref().and_then(|detail| detail.line)
}

#[tokio::test]
async fn a_deadline_interrupts_code_and_sleep() {
    for code in ["print begun\nspin", "print begun\nsleep 60000"] {
        let begun = Instant::now();
        let outcome = run(Request::new(code).timeout(Duration::from_millis(300))).await;
        failed(&outcome, ErrorKind::Timeout, "Timeout");
        assert_eq!((outcome.stdout.as_str(), line(&outcome)), ("begun\n", Some(2)));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

#[tokio::test]
async fn code_that_ignores_interrupts_is_stopped() {
    let outcome = run(Request::new("print begun\nhang").timeout(Duration::from_millis(300))).await;
    failed(&outcome, ErrorKind::Timeout, "Timeout");
    assert_eq!((outcome.stdout.as_str(), line(&outcome)), ("begun\n", None));
}

#[tokio::test]
async fn fuel_ends_a_run_at_the_same_place_every_time() {
    let mut used = Vec::new();
    for _ in 0..3 {
        let outcome = run(Request::new("print begun\nspin").fuel(1_000_000)).await;
        failed(&outcome, ErrorKind::Fuel, "Fuel");
        assert_eq!((outcome.stdout.as_str(), line(&outcome)), ("begun\n", Some(2)));
        used.push(outcome.usage.fuel);
    }
    assert!(used[0] >= 1_000_000 && used[0] < 1_100_000, "{used:?}");
    assert_eq!(used, [used[0]; 3]);
}

#[tokio::test]
async fn a_caller_interrupts_a_run() {
    let interrupt = Interrupt::new();
    let request = Request::new("spin").timeout(Duration::from_secs(30)).interrupt(&interrupt);
    let running = tokio::spawn(run(request));
    tokio::time::sleep(Duration::from_millis(20)).await;
    interrupt.interrupt();
    failed(&running.await.unwrap(), ErrorKind::Interrupted, "Interrupted");
}

/// Guests share a thread: none waits for the end of another.
#[tokio::test]
async fn sleeping_and_spinning_runs_share_one_thread() {
    let runtime = runtime();
    let begun = Instant::now();
    let runs = (0..8).map(|n| {
        let (code, timeout) = if n % 2 == 0 {
            ("sleep 300", 30_000)
        } else {
            ("spin", 400)
        };
        let runtime = runtime.clone();
        let request = Request::new(code).timeout(Duration::from_millis(timeout));
        tokio::spawn(async move { runtime.run(request).await.unwrap().outcome.success })
    });
    let mut succeeded = Vec::new();
    for run in runs.collect::<Vec<_>>() {
        succeeded.push(run.await.unwrap());
    }
    assert_eq!(succeeded, [true, false, true, false, true, false, true, false]);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn memory_is_refused_beyond_its_limit() {
    let code = "grow 100\nprint more\ngrow 100\nprint even more";
    let outcome = run(Request::new(code).memory_mib(10)).await;
    failed(&outcome, ErrorKind::Memory, "MemoryError");
    assert_eq!((outcome.stdout.as_str(), line(&outcome)), ("more\n", Some(3)));
    assert_eq!(outcome.usage.memory_peak_bytes, 100 << 16);
    // Code may go on without what it was refused.
    let outcome = run(Request::new("try grow 200\ngrow 160").memory_mib(10)).await;
    succeeded(&outcome);
    assert_eq!(outcome.usage.memory_peak_bytes, 10 * MIB);
}

#[tokio::test]
async fn output_is_cut_and_counted() {
    let request = Request::new("flood 70000\nprint end\nerror short");
    let outcome = run(request.limits(RequestLimits::default().output(1000))).await;
    succeeded(&outcome);
    assert_eq!((outcome.stdout.len(), outcome.stderr.as_str()), (1000, "short"));
    assert_eq!(outcome.usage.stdout_bytes, 70_004);
    assert_eq!(outcome.truncated, [Truncated::Stdout]);
}

#[tokio::test]
async fn a_flood_of_output_ends_the_run() {
    let outcome = outcome("flood 10000000000").await;
    failed(&outcome, ErrorKind::Output, "Output");
    assert_eq!(outcome.stdout.len() as u64, MIB);
    assert!(outcome.usage.stdout_bytes < 80 * MIB, "{:?}", outcome.usage);
}

/// Half of the runs are given up; those that are left get what they ask for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_are_dropped_leave_room_for_others() {
    let runtime = runtime();
    for _ in 0..100 {
        let run = runtime.run(Request::new("grow 16\nspin").timeout(Duration::from_mins(1)));
        assert!(tokio::time::timeout(Duration::from_millis(1), run).await.is_err());
    }
    succeeded(&runtime.run(Request::new("grow 16")).await.unwrap().outcome);
}

/// The time of the system that the toy prints, in nanoseconds.
#[tokio::test]
async fn a_clock_is_rounded_for_the_code_only() {
    const STEP: u64 = 1_000_000;
    let code = "clock\n".repeat(40);
    for (step, is_rounded) in [(Duration::from_nanos(STEP), true), (Duration::ZERO, false)] {
        let builder = Runtime::builder().bundle(guest::bundle()).clock_resolution(step);
        let outcome = builder.build().unwrap().run(Request::new(&*code)).await.unwrap().outcome;
        succeeded(&outcome);
        let times: Vec<u64> = outcome.stdout.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(times.len(), 40);
        assert_eq!(times.iter().all(|time| time % STEP == 0), is_rounded, "{times:?}");
    }
}
