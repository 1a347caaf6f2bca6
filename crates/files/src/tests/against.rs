//! Comparison with a file system of Linux: random sequences of calls run on both, and every result
//! must be the same.
//!
//! The Linux side runs in a process of its own with `chroot` to a new directory, so that absolute
//! paths and `..` mean the same on both sides. This takes root or a user namespace.

use std::path::Path;
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::linux::{self, Linux};
use super::steps::{self, Answer, Step};
use super::{Clock, EPOCH, memory};
use crate::files::ROOT;
use crate::{Errno, Files, Limits, PoolOptions, Usage};

/// Passes the root directory to the child process.
const PLACE: &str = "BELLJAR_FILES_TEST_ROOT";
/// Number of sequences to try.
const CASES: &str = "BELLJAR_FILES_TEST_CASES";

#[test]
fn the_answers_are_those_of_linux() {
    if let Some(place) = std::env::var_os(PLACE) {
        rustix::process::chroot(&place).unwrap();
        std::env::set_current_dir("/").unwrap();
        compare();
        return;
    }
    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    };
    let place = tempfile::tempdir_in(parent).unwrap();
    let own = std::env::current_exe().unwrap();
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new(own)
    } else {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]).arg(own);
        command
    };
    let name = "tests::against::the_answers_are_those_of_linux";
    let status = command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(PLACE, place.path())
        .status();
    assert!(status.unwrap().success(), "as root or in a namespace of users, see above");
}

fn compare() {
    let cases = std::env::var(CASES).ok().and_then(|cases| cases.parse().ok());
    let config = Config {
        cases: cases.unwrap_or(1_000),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    // Fixed seed, unless more cases are requested.
    let mut runner = match cases {
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        Some(_) => TestRunner::new(config),
    };
    let sequence = vec(steps::step(), 1..60);
    if let Err(error) = runner.run(&sequence, |steps| compare_one(&steps)) {
        panic!("{error}");
    }
}

/// The length of a file before a step's write, and after it.
fn growth(host: &Linux, step: &Step) -> u64 {
    let (fd, end) = match step {
        Step::Write(fd, len, _) => (*fd, host.position(*fd) + *len as u64),
        Step::Pwrite(fd, len, _, at) => {
            let start = if host.position(*fd) == host.size(*fd) {
                host.size(*fd)
            } else {
                0
            };
            (*fd, start.max(*at) + *len as u64)
        }
        Step::SetSize(fd, size) => (*fd, *size),
        Step::Symlink(target, ..) => return target.len() as u64,
        _ => return 0,
    };
    end.saturating_sub(host.size(fd))
}

fn compare_one(steps: &[Step]) -> Result<(), TestCaseError> {
    // Little memory, so that many blocks are in the spool.
    let pool = crate::Pool::new(PoolOptions {
        memory: 100_000,
        spool: Some("/".into()),
        disk: u64::MAX,
    });
    let mut files = Files::new(&pool, Limits::NONE);
    files.set_sealed(ROOT, false).unwrap();
    files.put_times(files.root(), EPOCH, EPOCH, EPOCH).unwrap();
    assert_eq!(files.give(files.root(), "/"), Ok(0));
    let (mut host, mut clock) = (Linux::new(), Clock::default());
    let mut done: Vec<Step> = Vec::new();
    let mut kept = (files.clone(), steps::dump(&files), 0);
    for step in steps {
        match step {
            Step::Snapshot => kept = (files.clone(), steps::dump(&files), done.len()),
            Step::Restore => {
                files = kept.0.clone();
                files.set_limits(Limits::NONE);
                done.truncate(kept.2);
                host = Linux::new();
                for step in &done {
                    let _ = host.run(step);
                }
            }
            Step::Limit(names, bytes, open) => {
                let usage = files.usage();
                files.set_limits(Limits {
                    bytes: usage.bytes + bytes,
                    files: usage.files + names,
                    open: usage.open + open,
                    ..Limits::NONE
                });
            }
            _ => {
                let before = files.usage();
                let ours = steps::run(&mut files, step, &mut clock);
                let (limits, usage) = (files.limits(), files.usage());
                let is_limit = match ours {
                    Err(Errno::Mfile) => {
                        prop_assert_eq!(host.open(), limits.open, "{:?}", step);
                        true
                    }
                    Err(Errno::Nospc) => {
                        let (bytes, names) = host.usage();
                        prop_assert!(
                            names >= limits.files || bytes + growth(&host, step) > limits.bytes,
                            "{:?} with {} names and {} bytes of {:?}",
                            step,
                            names,
                            bytes,
                            limits
                        );
                        true
                    }
                    _ => false,
                };
                if is_limit {
                    prop_assert_eq!(before, usage);
                    continue;
                }
                let theirs = host.run(step);
                prop_assert_eq!(&ours, &theirs, "{:?}", step);
                done.push(step.clone());
                if matches!(ours, Ok(Answer::Done)) {
                    let grown = usage.bytes > before.bytes || usage.files > before.files;
                    let over = usage.bytes > limits.bytes || usage.files > limits.files;
                    prop_assert!(!(grown && over), "{:?}", step);
                }
            }
        }
    }
    prop_assert_eq!(steps::dump(&files), linux::dump());
    let (bytes, names) = host.usage();
    prop_assert_eq!(
        files.usage(),
        Usage {
            bytes,
            files: names,
            open: host.open()
        }
    );
    prop_assert_eq!(&steps::dump(&kept.0), &kept.1);
    drop((files, kept));
    prop_assert_eq!(pool.usage(), memory(0).usage());
    Ok(())
}
