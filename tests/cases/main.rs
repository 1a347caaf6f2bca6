//! Guest programs that are tests by themselves: one for each file of a directory of
//! `tests/programs`, named after both.
//!
//!     cargo test --release --test cases                       # all of them
//!     cargo test --release --test cases -- contract_03        # those with this in their names
//!     cargo test --release --test cases -- --exact stops::spin
//!
//! The directories differ in what is expected of a program; a new file is a new test.

#[path = "../it/caches.rs"]
mod caches;
#[path = "../it/case.rs"]
mod case;
mod packages;
mod plotly;
mod recursion;
mod stops;
#[path = "../it/support.rs"]
#[expect(dead_code, reason = "the rest is for the tests that are written out")]
mod support;

use std::process::ExitCode;
use std::time::Duration;

use belljar::Request;
use belljar::outcome::ErrorKind;
use libtest_mimic::{Arguments, Trial};

use support::{failed, program, programs_in, run, still_serves};

/// The expected result of a program, by its name.
type Check = fn(&str);

/// The check for the programs of each directory.
const DIRECTORIES: &[(&str, Check)] = &[
    ("contract", |name| drop(case::check(&format!("contract/{name}")))),
    ("forge", |name| drop(case::check(&format!("forge/{name}")))),
    ("integers", |name| drop(case::check(&format!("integers/{name}")))),
    ("library", |name| drop(case::check(&format!("library/{name}")))),
    ("out_of_memory", runs_out_of_memory),
    ("recursion", recursion::survives),
    ("seeds", |name| drop(case::check(&format!("seeds/{name}")))),
    ("stops", stops::stops),
    ("threads", |name| drop(case::check(&format!("threads/{name}")))),
];

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for &(directory, check) in DIRECTORIES {
        for name in programs_in(directory) {
            trials.push(test(&format!("{directory}::{name}"), move || check(&name)));
        }
    }
    trials.push(test("recursion::many_at_once", recursion::many_at_once));
    trials.push(
        test("plotly::figures_are_kept", plotly::figures_are_kept)
            .with_ignored_flag(plotly::wheels().is_none()),
    );
    trials.push(
        test("packages::agree_with_the_host", packages::agree_with_the_host)
            .with_ignored_flag(plotly::wheels().is_none() || packages::host().is_none()),
    );
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that fails when `body` panics.
fn test(name: &str, body: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, || {
        body();
        Ok(())
    })
}

/// Allocates twice the available memory.
fn runs_out_of_memory(name: &str) {
    const LIMIT_MIB: u64 = 128;
    let request = Request::new(program(&format!("out_of_memory/{name}")))
        .arg("256")
        .memory_mib(LIMIT_MIB)
        .timeout(Duration::from_mins(1));
    let outcome = run(request).outcome;
    failed(&outcome, ErrorKind::Memory);
    assert_eq!(outcome.error.as_deref(), Some("Memory limit exceeded during code execution"));
    assert!(outcome.usage.memory_peak_bytes <= LIMIT_MIB << 20, "{:?}", outcome.usage);
    still_serves();
}
