//! The host decompresses and compresses for the guest: bounded, metered, stopped at the deadline.

use std::time::{Duration, Instant};

use belljar::Request;
use belljar::outcome::ErrorKind;
use belljar::request::Deterministic;

use crate::support::{failed, program, run, still_serves, succeeded};

/// `ask` sends a frame; `packed` are 32 MiB of zeros.
const FRAMES: &str = "
from _host import call
def ask(how, size, data):
    return call(b'z' + how + size.to_bytes(4, 'little') + data)
SIZE = 32 << 20
packed = ask(b'cCODEC', SIZE, bytes(SIZE))
";

fn frames(codec: char, rest: &str) -> Request {
    let code = FRAMES.replace("CODEC", &codec.to_string()) + rest;
    Request::new(code).memory_mib(300).timeout(Duration::from_mins(1))
}

#[test]
fn lies_about_compressed_data_are_refused() {
    let outcome = run(Request::new(program("codecs/lies")).timeout(Duration::from_mins(1))).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "refused\n");
    still_serves();
}

#[test]
fn work_of_the_host_costs_fuel_the_same_each_time() {
    for codec in ['s', 'r', 'f', 'z'] {
        let fuel = |times: u64| {
            let request =
                frames(codec, &format!("for _ in range({times}): ask(b'd{codec}', SIZE, packed)"));
            let outcome = run(request.deterministic(Deterministic::default())).outcome;
            succeeded(&outcome);
            outcome.usage.fuel
        };
        let cost = fuel(3) - fuel(1);
        assert!(cost >= 2 * 8 * (32 << 20), "{codec}: {cost}");
        assert_eq!(fuel(3) - fuel(1), cost, "{codec}");
    }
}

#[test]
fn a_fuel_limit_holds_for_work_of_the_host() {
    let request = frames('z', "while True: ask(b'dz', SIZE, packed)").fuel(2_000_000_000);
    let outcome = run(request).outcome;
    failed(&outcome, ErrorKind::Fuel);
    assert!(outcome.usage.fuel < 6_500_000_000, "{}", outcome.usage.fuel);
}

#[test]
fn work_of_the_host_ends_at_the_deadline() {
    let loops = [
        "while True: ask(b'dCODEC', SIZE, packed)",
        "while True: ask(b'cCODEC', SIZE, bytes(SIZE))",
        // Also if the code does not want to be interrupted.
        "
while True:
    try:
        while True: ask(b'dCODEC', SIZE, packed)
    except BaseException: pass",
    ];
    for codec in ['s', 'r', 'f', 'z'] {
        for code in loops {
            let code = code.replace("CODEC", &codec.to_string());
            let started = Instant::now();
            let outcome = run(frames(codec, &code).timeout(Duration::from_secs(2))).outcome;
            let late = started.elapsed().saturating_sub(Duration::from_millis(2_500));
            failed(&outcome, ErrorKind::Timeout);
            assert!(late < Duration::from_secs(1), "{codec}: {code}: {late:?} late");
        }
    }
    still_serves();
}

/// One value repeated, packed values, differences of one value, and texts of nothing.
const DECODING: [&str; 4] = [
    "ask(b'vh', 2 << 20, b'\\1\\xfe\\xff\\xff\\xff\\x0f\\1')",
    "ask(b'vh', 2 << 20, b'\\1\\x81\\x80\\x80\\1' + ZEROS)",
    "ask(b'vi', 1 << 20, b'\\x80\\1\\1\\x80\\x80\\x40\\0' + ZEROS)",
    "ask(b'vt', 1 << 20, ZEROS)",
];

fn decoding(ask: &str, rest: &str) -> Request {
    let code = format!("{FRAMES}ZEROS = bytes(4 << 20)\nassert {ask}\n{rest}: {ask}");
    Request::new(code.replace("CODEC", "s")).memory_mib(300).timeout(Duration::from_mins(1))
}

#[test]
fn decoding_is_paid_for_and_ends_at_the_deadline() {
    for ask in DECODING {
        let fuel = |times: u64| {
            let request = decoding(ask, &format!("for _ in range({times})"));
            let outcome = run(request.deterministic(Deterministic::default())).outcome;
            succeeded(&outcome);
            outcome.usage.fuel
        };
        let cost = fuel(3) - fuel(1);
        assert!(cost >= 2 * 8 * (8 << 20), "{ask}: {cost}");
        assert_eq!(fuel(3) - fuel(1), cost, "{ask}");
        let started = Instant::now();
        let request = decoding(ask, "while True").timeout(Duration::from_secs(2));
        failed(&run(request).outcome, ErrorKind::Timeout);
        assert!(started.elapsed() < Duration::from_millis(3_500), "{ask}: {:?}", started.elapsed());
    }
    still_serves();
}

/// Blocks of Zstandard that take much time and have no bytes.
#[test]
fn slow_data_end_at_the_deadline() {
    // A frame with a window of 1 KiB, and empty blocks.
    let code = FRAMES.replace("CODEC", "z")
        + "data = b'\\x28\\xb5\\x2f\\xfd\\x00\\x00' + bytes(60 << 20)\n\
           while True: ask(b'dz', 1, data)";
    let started = Instant::now();
    let outcome = run(Request::new(code).memory_mib(300).timeout(Duration::from_secs(2))).outcome;
    failed(&outcome, ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

/// A decoder's window is freed after each call.
#[cfg(target_os = "linux")]
#[test]
fn the_host_keeps_no_memory() {
    use crate::support::{alone, comes_to, memory_taken};

    alone("codecs::the_host_keeps_no_memory", || {
        let decompress =
            || succeeded(&run(frames('z', "for _ in range(9): ask(b'dz', SIZE, packed)")).outcome);
        decompress();
        let before = memory_taken();
        for _ in 0..5 {
            decompress();
        }
        // What the guest's memory took is kept for a second.
        let mut more = u64::MAX;
        let few = comes_to(|| {
            more = memory_taken().saturating_sub(before);
            more < 16 << 20
        });
        assert!(few, "{more} bytes");
    });
}
