//! Limits on memory, output, files and host calls.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use belljar::outcome::{ErrorKind, Truncated};
use belljar::request::RunLimits;
use belljar::{Outcome, Request, Run, Runtime, SessionOptions};

use crate::host;
use crate::support::{
    alone, comes_to, failed, memory_taken, program, programs_in, run, run_on, runtime, runtime_in,
    still_serves, succeeded,
};

const MIB: u64 = 1 << 20;

fn hog(name: &str, args: &[&str]) -> Request {
    limited(&format!("hogs/{name}"), args)
}

fn limited(program_name: &str, args: &[&str]) -> Request {
    let request =
        Request::new(program(program_name)).timeout(Duration::from_mins(1)).memory_mib(128);
    args.iter().fold(request, |request, arg| request.arg(*arg))
}

#[test]
fn the_host_has_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let output = host::run("out_of_memory/bytearray", dir.path(), &["256"]);
    assert_eq!(output.stdout, b"268435456\n");
    assert_eq!(run(limited("out_of_memory/bytearray", &["100"])).outcome.stdout, "104857600\n");
}

#[test]
fn memory_can_be_had_again() {
    let outcome = run(hog("caught", &[])).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "recovered\n");
}

#[test]
fn sizes_beyond_reason_are_refused_to_the_guest() {
    assert_eq!(run(hog("absurd", &[])).outcome.stdout, "refused\n".repeat(3));
}

#[test]
fn the_limit_is_above_the_image() {
    // Both images leave the same memory to the code, whatever their own size.
    for image in ["core", "data"] {
        let request = |mib: &str| limited("out_of_memory/bytearray", &[mib]).image(image);
        succeeded(&run(request("110")).outcome);
        failed(&run(request("140")).outcome, ErrorKind::Memory);
    }
}

#[test]
fn floods_of_output_are_cut() {
    for (name, args) in [
        ("output", ["stdout", "20"]),
        ("output", ["stderr", "20"]),
        ("output_raw", ["1", "20"]),
        ("output_raw", ["2", "20"]),
    ] {
        let outcome = run(hog(name, &args)).outcome;
        let (text, total, cut) = match args[0] {
            "stdout" | "1" => (&outcome.stdout, outcome.usage.stdout_bytes, Truncated::Stdout),
            _ => (&outcome.stderr, outcome.usage.stderr_bytes, Truncated::Stderr),
        };
        assert_eq!(text.len() as u64, MIB, "{name} {args:?}");
        assert_eq!(outcome.truncated, [cut], "{name} {args:?}");
        if outcome.success {
            assert_eq!(total, 20 * MIB, "{name} {args:?}");
        } else {
            failed(&outcome, ErrorKind::Output);
        }
    }
}

#[test]
fn many_small_writes_are_one_output() {
    let outcome = run(hog("output_bits", &[])).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, ".".repeat(200_000));
}

#[test]
fn letters_are_kept_whole() {
    let mut request = hog("output_letters", &[]);
    request.limits.output = Some(99_999);
    let outcome = run(request).outcome;
    assert_eq!(outcome.stdout, "é".repeat(49_999));
}

#[test]
fn an_endless_message_is_cut() {
    let outcome = run(hog("traceback_flood", &[]).memory_mib(512)).outcome;
    failed(&outcome, ErrorKind::Exception);
    let detail = outcome.error_detail.as_ref().unwrap();
    assert!(outcome.error.as_ref().unwrap().len() < 20_000);
    assert!(detail.message.len() < 20_000 && detail.message.starts_with("xxx"));
    assert!(detail.traceback.as_ref().unwrap().len() < 200_000);
    assert!(outcome.stderr.len() as u64 <= MIB);
}

/// A flood of output or messages does not accumulate in the host.
#[test]
fn floods_do_not_fill_the_host() {
    alone("limits::floods_do_not_fill_the_host", || {
        run(hog("output", &["stdout", "2"]));
        let before = memory_taken();
        for (name, args) in [
            ("output", vec!["stdout", "300"]),
            ("output_raw", vec!["2", "300"]),
            ("door_flood", vec![]),
        ] {
            run(hog(name, &args).memory_mib(256));
            // Memory of the last run is freed in the background.
            let mut more = u64::MAX;
            let few = comes_to(|| {
                more = memory_taken().saturating_sub(before);
                more < 64 * MIB
            });
            assert!(few, "after {name} {} MiB more are in use", more / MIB);
        }
    });
}

#[test]
fn messages_to_the_host_are_bounded() {
    let outcome = run(hog("door_flood", &[]).memory_mib(256)).outcome;
    assert!(outcome.stderr.len() < 4 << 20, "{} bytes on stderr", outcome.stderr.len());
    still_serves();
}

const QUOTA: u64 = 8 * MIB;

/// A run with a small workspace, in a directory that the test can measure.
fn fill(name: &str, args: &[&str], dir: &Path) -> Run {
    let mut request = hog(name, args).image("core");
    request.limits.workspace = Some(QUOTA);
    request.limits.files = Some(100);
    run_on(&runtime_in(dir), request)
}

/// The disk space and number of entries of a directory, without itself.
fn usage(dir: &Path) -> (u64, u64) {
    let (mut bytes, mut entries) = (0, 0);
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        #[cfg(unix)]
        let taken = std::os::unix::fs::MetadataExt::blocks(&meta) * 512;
        #[cfg(not(unix))]
        let taken = meta.len();
        bytes += taken;
        entries += 1;
        if meta.is_dir() {
            let (more, inside) = usage(&entry.path());
            bytes += more;
            entries += inside;
        }
    }
    (bytes, entries)
}

/// The program's output: the error that stopped it, and its progress.
#[track_caller]
fn stopped_at(outcome: &Outcome) -> (String, u64) {
    succeeded(outcome);
    let (error, number) = outcome.stdout.trim().split_once(' ').unwrap();
    (error.to_owned(), number.parse().unwrap())
}

#[track_caller]
fn is_full(error: &str) {
    assert!(["ENOSPC", "EDQUOT", "EFBIG"].contains(&error), "{error}");
}

#[test]
fn bytes_are_counted_as_they_are_written() {
    let names =
        ["files_bytes", "files_temporary", "files_unlinked", "files_replaced", "files_as_streams"];
    for name in names {
        let dir = tempfile::tempdir().unwrap();
        let run = fill(name, &[], dir.path());
        let (error, written) = stopped_at(&run.outcome);
        is_full(&error);
        assert!(written <= QUOTA, "{name} wrote {written} bytes");
        assert!(written >= QUOTA - MIB, "{name} was refused after {written} bytes");
        let (bytes, _) = usage(dir.path());
        assert!(bytes <= QUOTA + MIB, "{name} takes {bytes} bytes on the disk");
    }
}

#[test]
fn the_host_has_no_such_limit() {
    // A disk has; so only check that the same tricks work there.
    let dir = tempfile::tempdir().unwrap();
    let output = host::run("hogs/files_sparse", dir.path(), &[]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.matches("worked").count() >= 4, "{printed}");
    let output = host::run("hogs/files_rewritten", dir.path(), &[]);
    assert_eq!(output.stdout, b"1048576\n");
}

#[test]
fn a_file_cannot_look_larger_than_the_quota() {
    let dir = tempfile::tempdir().unwrap();
    let run = fill("files_sparse", &[], dir.path());
    succeeded(&run.outcome);
    assert!(!run.outcome.stdout.contains("worked"), "{}", run.outcome.stdout);
    let size: u64 = run.outcome.stdout.lines().last().unwrap().parse().unwrap();
    assert!(size <= QUOTA, "{}", run.outcome.stdout);
    assert!(run.outcome.files.iter().all(|f| f.size <= QUOTA), "{:?}", run.outcome.files);
}

#[test]
fn what_is_gone_is_not_counted() {
    for name in ["files_rewritten", "files_truncated"] {
        let dir = tempfile::tempdir().unwrap();
        let run = fill(name, &[], dir.path());
        assert_eq!(run.outcome.stdout, "1048576\n", "{name}: {:#?}", run.outcome);
    }
}

#[test]
fn a_file_counts_once_however_often_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(host::run("hogs/files_open_twice", dir.path(), &[]).stdout, b"6\n");
    let dir = tempfile::tempdir().unwrap();
    let run = fill("files_open_twice", &[], dir.path());
    assert_eq!(run.outcome.stdout, "6\n", "{:#?}", run.outcome);
}

#[test]
fn files_are_counted_as_they_are_made() {
    for kind in ["file", "directory", "symlink", "link"] {
        let dir = tempfile::tempdir().unwrap();
        let run = fill("files_many", &[kind], dir.path());
        let (_, made) = stopped_at(&run.outcome);
        assert!((50..=100).contains(&made), "{made} of kind {kind}");
        let (_, entries) = usage(dir.path());
        assert!(entries <= 105, "{entries} entries of kind {kind}");
    }
}

#[test]
fn input_files_are_not_counted() {
    let mut request = hog("files_bytes", &[]).file("given.bin", vec![7; 4 << 20]);
    request.limits.workspace = Some(QUOTA);
    let (_, written) = stopped_at(&run(request).outcome);
    assert!(written >= QUOTA - MIB, "{written}");
}

#[test]
fn nothing_may_be_written_where_nothing_is_allowed() {
    let mut request = Request::new(
        "for path in ('a.txt', '/tmp/a.txt'):\n    try:\n        open(path, 'w').write('x')\n    \
         except OSError as error:\n        print(type(error).__name__)",
    );
    request.limits.workspace = Some(0);
    request.limits.files = Some(0);
    assert_eq!(run(request).outcome.stdout, "OSError\nOSError\n");
}

#[test]
fn a_refused_write_leaves_an_error_that_helps() {
    let mut request = Request::new("open('big.bin', 'wb').write(bytes(1 << 20))");
    request.limits.workspace = Some(1000);
    let outcome = run(request).outcome;
    failed(&outcome, ErrorKind::Exception);
    assert!(outcome.error.as_ref().unwrap().starts_with("OSError: [Errno "), "{outcome:#?}");
    assert!(outcome.error_detail.unwrap().hint.is_some());
}

#[test]
fn deep_directories_end_somewhere() {
    let dir = tempfile::tempdir().unwrap();
    let run = fill("deep_directories", &[], dir.path());
    let (_, deep) = stopped_at(&run.outcome);
    assert!(deep <= 100, "{deep}");
    drop(run);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "it could not be removed");
}

#[test]
fn links_and_descriptors_lead_no_deeper() {
    let host = tempfile::tempdir().unwrap();
    let output = host::run("hogs/deep_links", host.path(), &[]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.matches("worked").count(), 4, "{printed}");
    let dir = tempfile::tempdir().unwrap();
    let mut request = hog("deep_links", &[]).image("core");
    request.limits.files = Some(5_000);
    let run = run_on(&runtime_in(dir.path()), request);
    succeeded(&run.outcome);
    let deepest = |dir: &Path| {
        let mut waiting = vec![(dir.to_owned(), 0)];
        let mut deepest = 0;
        while let Some((dir, depth)) = waiting.pop() {
            deepest = deepest.max(depth);
            let below = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
            let below = below.filter(|entry| entry.file_type().unwrap().is_dir());
            waiting.extend(below.map(|entry| (entry.path(), depth + 1)));
        }
        deepest
    };
    // The host's files are around it.
    assert!(deepest(dir.path()) <= 64 + 2, "{}", run.outcome.stdout);
    assert!(!run.outcome.stdout.contains("worked"), "{}", run.outcome.stdout);
}

#[test]
fn odd_names_are_files_like_others() {
    let run = run(hog("long_names", &[]));
    succeeded(&run.outcome);
    let refused = ["256 refused", "100000 refused", "100001 refused"];
    assert!(refused.iter().all(|line| run.outcome.stdout.contains(line)), "{}", run.outcome.stdout);
    assert_eq!(run.outcome.files.len(), 10, "{:?}", run.outcome.files);
    for file in
        run.outcome.files.iter().filter(|f| !f.path.starts_with('n') || f.path == "new\nline")
    {
        assert_eq!(run.read(&file.path).unwrap(), file.path.as_bytes());
    }
}

#[test]
fn descriptors_are_bounded() {
    let outcome = run(hog("descriptors", &[])).outcome;
    let (error, held) = stopped_at(&outcome);
    assert!(["EMFILE", "ENFILE"].contains(&error.as_str()), "{error}");
    assert!((16..=2000).contains(&held), "{held}");
    still_serves();
}

#[test]
fn every_hog_is_named_here() {
    let source = include_str!("limits.rs");
    for name in programs_in("hogs") {
        assert!(
            source.contains(&format!("{name:?}")) || source.contains(&format!(" {name} ")),
            "{name}"
        );
    }
}

/// Without a host limit, the caller's time limit may be later than any clock.
#[test]
fn a_time_without_end_is_no_panic() {
    let unlimited = RunLimits::CEILINGS.timeout(Duration::MAX);
    let runtime = Runtime::builder().environment().ceilings(unlimited).build().unwrap();
    for timeout in [Duration::MAX, Duration::from_secs(1 << 60)] {
        let request = Request::new("print(1)").timeout(timeout);
        succeeded(&runtime.blocking().run(request).unwrap().outcome);
        let session = SessionOptions::new().image("core");
        let session = runtime.blocking().session(session).unwrap();
        succeeded(&session.run(Request::new("print(1)").timeout(timeout)).unwrap());
        session.close();
    }
}

/// The parser raises `MemoryError`, natively too, independent of memory.
#[test]
fn source_that_is_nested_too_deeply_is_no_limit_of_memory() {
    let nested = format!("x = {}1", "-".repeat(100_000));
    for code in [nested.clone(), format!("exec({nested:?})")] {
        let run = run(Request::new(code));
        let error = run.outcome.error_detail.as_ref().expect("it fails");
        assert_eq!(error.kind, ErrorKind::Exception);
        assert_eq!(error.type_, "MemoryError");
    }
}

#[test]
fn limits_differ_from_run_to_run() {
    // The same code with several limits at once: none of them affects another.
    let results: HashMap<u64, String> = std::thread::scope(|scope| {
        let runs: Vec<_> = [16, 64, 200]
            .map(|mib| {
                let code = "n = 0\ntry:\n    while True:\n        n += 1\n        x = bytearray(n << 20)\n\
                            except MemoryError:\n    print(n)";
                scope.spawn(move || {
                    let request = Request::new(code).memory_mib(mib).timeout(Duration::from_mins(1));
                    (mib, runtime().blocking().run(request).unwrap().outcome.stdout)
                })
            })
            .into();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for (mib, stdout) in results {
        let reached: u64 = stdout.trim().parse().unwrap();
        assert!(reached <= mib && reached >= mib / 4, "{reached} MiB under a limit of {mib}");
    }
}
