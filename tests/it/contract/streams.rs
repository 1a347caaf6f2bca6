//! Items 1, 3 and 14: output in order, immediate, and cut at the limit.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use belljar::event::{OutputWatcher, Stream};
use belljar::outcome::{ErrorKind, Truncated};
use belljar::{Request, RequestLimits};

use crate::support::{check, failed, outcome, run, runtime, succeeded};

/// Records the output of a run, with times.
#[derive(Default)]
struct Watcher(Mutex<Vec<(Instant, bool, Vec<u8>)>>);

impl OutputWatcher for Watcher {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let is_stdout = matches!(stream, Stream::Stdout);
        self.0.lock().unwrap().push((Instant::now(), is_stdout, bytes.to_vec()));
    }
}

impl Watcher {
    fn text(&self, stdout: bool) -> String {
        let pieces = self.0.lock().unwrap();
        let bytes: Vec<u8> =
            pieces.iter().filter(|p| p.1 == stdout).flat_map(|p| p.2.clone()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[test]
fn contract_14_output_is_cut_at_a_character_boundary() {
    for limit in [0, 1, 2, 3, 1000, 1001] {
        let mut request = Request::new("print('é' * 1000, end='')");
        request.limits.output = Some(limit);
        let outcome = run(request).outcome;
        succeeded(&outcome);
        assert_eq!(outcome.stdout, "é".repeat(usize::try_from(limit / 2).unwrap()), "{limit}");
        assert_eq!(outcome.truncated, [Truncated::Stdout]);
        assert_eq!(outcome.usage.stdout_bytes, 2000);
    }
}

#[test]
fn contract_14_output_that_fits_is_not_cut() {
    let mut request =
        Request::new("import sys\nprint('é' * 50, end='')\nsys.stderr.write('x' * 100)");
    request.limits.output = Some(100);
    let outcome = run(request).outcome;
    assert!(outcome.truncated.is_empty(), "{outcome:#?}");
    assert_eq!(outcome.stderr.len(), 100);
}

#[test]
fn contract_14_each_stream_has_its_own_limit() {
    let mut request = Request::new("import sys\nprint('o' * 500)\nsys.stderr.write('e' * 50)");
    request.limits.output = Some(100);
    let outcome = run(request).outcome;
    assert_eq!(outcome.truncated, [Truncated::Stdout]);
    assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (100, 50));
}

#[test]
fn contract_01_invalid_text_is_replaced() {
    let outcome = outcome("import os\nos.write(1, b'a\\xffb\\xc3')\nos.write(2, b'\\x80')");
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "a\u{fffd}b\u{fffd}");
    assert_eq!(outcome.stderr, "\u{fffd}");
}

#[test]
fn contract_01_streams_and_descriptors_keep_their_order() {
    let outcome = outcome(
        "import os, sys\nprint('one')\nos.write(1, b'two\\n')\nsys.stdout.write('three\\n')\n\
         os.write(1, b'four\\n')\nprint('five', end='')\nos.write(1, b'six')",
    );
    assert_eq!(outcome.stdout, "one\ntwo\nthree\nfour\nfivesix");
}

#[test]
fn contract_01_output_is_seen_while_the_code_runs() {
    let watcher = Arc::new(Watcher::default());
    let code = "import sys, time\nprint('first')\ntime.sleep(0.5)\nprint('second')\n\
                sys.stderr.write('third\\n')";
    let run = runtime().blocking().run(Request::new(code).watch(watcher.clone())).unwrap();
    check(&run.outcome);
    assert_eq!(watcher.text(true), run.outcome.stdout);
    assert_eq!(watcher.text(false), run.outcome.stderr);
    let pieces = watcher.0.lock().unwrap();
    let gap = pieces.last().unwrap().0 - pieces[0].0;
    assert!(gap >= Duration::from_millis(400), "seen at once, not as it came: {gap:?}");
}

#[test]
fn contract_14_a_watcher_sees_no_more_than_the_limit() {
    let watcher = Arc::new(Watcher::default());
    let limits = RequestLimits::default().output(1000);
    let request = Request::new("for _ in range(1000):\n    print('x' * 99)").limits(limits);
    let run = runtime().blocking().run(request.watch(watcher.clone())).unwrap();
    assert_eq!(run.outcome.stdout.len(), 1000);
    assert_eq!(watcher.text(true), run.outcome.stdout);
}

#[test]
fn contract_03_what_was_printed_last_before_a_hard_stop_is_there() {
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n\
                print('no newline at the end', end='')\nwhile True:\n    pass";
    let outcome = run(Request::new(code).timeout(Duration::from_millis(300))).outcome;
    failed(&outcome, ErrorKind::Timeout);
    assert_eq!(outcome.stdout, "no newline at the end");
}
