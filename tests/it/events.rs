//! Events of a run, in order: live, in the outcome, and with a slow reader.

use std::time::{Duration, Instant};

use belljar::event::{Event, EventKind, EventReader, event_channel};
use belljar::outcome::{ErrorKind, Truncated};
use belljar::request::{Capture, Deterministic};
use belljar::{Request, RequestLimits, Run};

use crate::support::{check, run, runtime};

fn listed(code: &str) -> Request {
    Request::new(code).capture(Capture::default().events(true))
}

/// The events of an outcome between the first and the last, without times.
#[track_caller]
fn events(request: Request) -> Vec<EventKind> {
    between(run(request).outcome.events.expect("events were asked for"))
}

#[track_caller]
fn between(events: Vec<Event>) -> Vec<EventKind> {
    assert!(events.is_sorted_by_key(|event| event.at), "{events:#?}");
    let mut kinds: Vec<EventKind> = events.into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds.remove(0), EventKind::Started);
    assert!(matches!(kinds.pop(), Some(EventKind::Ended { .. })));
    kinds
}

fn stdout(text: &str) -> EventKind {
    EventKind::Stdout { text: text.into() }
}

fn stderr(text: &str) -> EventKind {
    EventKind::Stderr { text: text.into() }
}

/// Runs a request while this thread reads its events at its own pace.
fn read_with<T>(request: Request, read: impl FnOnce(&mut EventReader) -> T) -> (Run, T) {
    let (watcher, mut events) = event_channel();
    let request = request.watch(watcher);
    std::thread::scope(|scope| {
        let running = scope.spawn(move || runtime().blocking().run(request).unwrap());
        let found = read(&mut events);
        (running.join().unwrap(), found)
    })
}

fn all(events: &mut EventReader) -> Vec<Event> {
    std::iter::from_fn(|| events.next_blocking()).collect()
}

#[test]
fn a_run_that_nobody_listens_to_has_no_events() {
    assert_eq!(run(Request::new("print(1)")).outcome.events, None);
}

#[test]
fn streams_and_descriptors_keep_their_order() {
    let code = "import os, sys\nprint('one')\nprint('two', file=sys.stderr)\nos.write(1, b'three')\n\
                print('four')\nos.write(2, b'five')";
    let expected = [stdout("one\n"), stderr("two\n"), stdout("threefour\n"), stderr("five")];
    assert_eq!(events(listed(code)), expected);
}

#[test]
fn characters_come_when_they_are_whole() {
    let code = "import os\nfor byte in 'aé€😀'.encode():\n    os.write(1, bytes([byte]))\n    \
                os.write(2, b'.')\nos.write(1, b'\\xff\\xe2\\x82')";
    let texts: Vec<String> = events(listed(code))
        .into_iter()
        .filter_map(|kind| match kind {
            EventKind::Stdout { text } => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["a", "é", "€", "😀", "\u{fffd}\u{fffd}"]);
}

#[test]
fn output_past_its_limit_does_not_come() {
    let request = listed("print('é' * 100, end='')\nprint('more')")
        .limits(RequestLimits::default().output(5));
    assert_eq!(events(request), [stdout("éé")]);
}

#[test]
fn an_error_comes_after_all_that_the_code_did_with_its_traceback() {
    let code = "import atexit, sys\natexit.register(lambda: print('at the end'))\n\
                open('a.txt', 'w').write('x')\nprint('so far', file=sys.stderr)\n1 / 0";
    let ran = run(listed(code));
    let outcome = ran.outcome;
    let kinds = between(outcome.events.clone().unwrap());
    let [
        said,
        at_exit,
        EventKind::FileWritten { path, size: 1 },
        EventKind::Error { error, detail },
    ] = &kinds[..]
    else {
        panic!("{kinds:#?}")
    };
    assert_eq!((said, at_exit), (&stderr("so far\n"), &stdout("at the end\n")));
    assert_eq!(path, "a.txt");
    assert_eq!(
        (Some(error), Some(detail)),
        (outcome.error.as_ref(), outcome.error_detail.as_ref())
    );
    assert!(outcome.stderr.contains("ZeroDivisionError"), "the outcome has both");
    assert!(detail.traceback.as_ref().unwrap().contains("ZeroDivisionError"));
}

#[test]
fn a_run_that_does_not_begin_says_why() {
    let kinds = events(listed(" "));
    assert!(matches!(&kinds[..], [EventKind::Error { error, .. }] if error == "No code provided."));
}

#[test]
fn a_stop_is_an_event_where_it_happened() {
    let request = listed("print('a')\ntry:\n    while True: pass\nfinally:\n    print('b')");
    let kinds = events(request.timeout(Duration::from_millis(200)));
    let reason = ErrorKind::Timeout;
    assert_eq!(kinds[..3], [stdout("a\n"), EventKind::Interrupted { reason }, stdout("b\n")]);
    assert!(matches!(&kinds[3..], [EventKind::Error { detail, .. }] if detail.kind == reason));
}

#[test]
fn events_of_a_repeatable_run_repeat_themselves() {
    let request = || {
        let code = "import time\nfor n in range(3):\n    print(n)\n    time.sleep(2)\nprint('e')";
        listed(code).deterministic(Deterministic::default())
    };
    let (one, two) = (run(request()).outcome.events.unwrap(), run(request()).outcome.events);
    assert_eq!(Some(&one), two.as_ref());
    assert!(one.last().unwrap().at > Duration::from_secs(6), "not the guest's clock: {one:#?}");
}

#[test]
fn a_session_numbers_nothing_and_forgets_nothing() {
    let session = runtime().blocking().session(belljar::SessionOptions::default()).unwrap();
    for text in ["1\n", "2\n"] {
        let code = format!("print({text:?}, end='')");
        let outcome = session.run(listed(&code)).unwrap();
        check(&outcome);
        assert_eq!(between(outcome.events.unwrap()), [stdout(text)]);
    }
    assert_eq!(session.run(Request::new("print(3)")).unwrap().events, None);
}

#[test]
fn what_is_listed_is_bounded() {
    let code =
        "import sys\nfor n in range(8_000):\n    print(n)\n    print(n, file=sys.stderr)\n1 / 0";
    let outcome = run(listed(code)).outcome;
    assert_eq!(outcome.truncated, [Truncated::Events]);
    let events = outcome.events.unwrap();
    assert_eq!(events.len(), 10_002);
    assert!(matches!(events[10_000].kind, EventKind::Error { .. }));
}

#[test]
fn a_reader_sees_events_as_they_happen() {
    let code = "import time\nprint('first', end='')\ntime.sleep(0.5)\nprint('second', end='')";
    let (_, seen) = read_with(Request::new(code), |events| {
        std::iter::from_fn(|| events.next_blocking())
            .map(|event| (Instant::now(), event))
            .collect::<Vec<_>>()
    });
    let at = |wanted: &str| {
        let found = seen.iter().find(|(_, event)| event.kind == stdout(wanted));
        found.unwrap_or_else(|| panic!("{wanted}: {seen:#?}")).0
    };
    assert!(at("second").duration_since(at("first")) > Duration::from_millis(400));
}

#[test]
fn a_reader_on_the_same_thread_gets_its_turn() {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Busy to the end: if it never yielded, the reader would be late by all of it.
    let code =
        "print('a', end='')\nt = __import__('time').monotonic\ns = t()\nwhile t() < s + 1: pass";
    let late = reactor.block_on(async {
        let (watcher, mut events) = event_channel();
        let request = Request::new(code).watch(watcher);
        let running = tokio::spawn(async move { runtime().run(request).await.unwrap() });
        loop {
            let event = events.next().await.expect("an event");
            if event.kind == stdout("a") {
                break;
            }
        }
        let seen = Instant::now();
        running.await.unwrap();
        seen.elapsed()
    });
    assert!(late > Duration::from_millis(900), "seen {late:?} before the end");
}

#[test]
fn a_slow_reader_misses_nothing_while_it_reads() {
    let code = "import sys\nfor n in range(5_000):\n    print(n)\n    print(n, file=sys.stderr)";
    let request = Request::new(code).timeout(Duration::from_mins(1));
    let (_, seen) = read_with(request, |events| {
        let mut seen = Vec::new();
        while let Some(event) = events.next_blocking() {
            if seen.len() % 1_000 == 0 {
                std::thread::sleep(Duration::from_millis(30));
            }
            seen.push(event);
        }
        seen
    });
    assert!(!seen.iter().any(|e| matches!(e.kind, EventKind::Dropped { .. })));
    let text = |wanted: fn(&EventKind) -> Option<&String>| -> String {
        seen.iter().filter_map(|event| wanted(&event.kind)).map(String::as_str).collect()
    };
    let numbers: String = (0..5_000).fold(String::new(), |all, n| all + &format!("{n}\n"));
    let out = text(|kind| {
        if let EventKind::Stdout { text } = kind {
            Some(text)
        } else {
            None
        }
    });
    let err = text(|kind| {
        if let EventKind::Stderr { text } = kind {
            Some(text)
        } else {
            None
        }
    });
    assert!(out == numbers && err == numbers);
}

#[test]
fn a_reader_that_reads_nothing_holds_nobody_up_for_long_and_is_told_what_it_missed() {
    let code =
        "import sys\nfor n in range(20_000):\n    print(n)\n    print(n, file=sys.stderr)\n1 / 0";
    let request = Request::new(code).timeout(Duration::from_mins(1));
    let began = Instant::now();
    let (watcher, mut events) = event_channel();
    let run = runtime().blocking().run(request.watch(watcher)).unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let kinds: Vec<EventKind> = all(&mut events).into_iter().map(|event| event.kind).collect();
    assert!(kinds.len() < 1_100, "{}", kinds.len());
    let [
        ..,
        EventKind::Dropped { events, bytes },
        EventKind::Error { .. },
        EventKind::Ended { .. },
    ] = &kinds[..]
    else {
        panic!("{:#?}", &kinds[kinds.len() - 4..])
    };
    assert!(*events > 30_000 && *bytes > *events);
    assert_eq!(run.outcome.stdout.lines().count(), 20_000, "the outcome is whole");
}

#[test]
fn a_wait_for_a_reader_ends_with_an_interrupt() {
    let code = "import sys\nwhile True:\n    print(1)\n    print(2, file=sys.stderr)";
    let request = Request::new(code).timeout(Duration::from_millis(400));
    let (watcher, events) = event_channel();
    let began = Instant::now();
    let run = runtime().blocking().run(request.watch(watcher)).unwrap();
    assert_eq!(run.outcome.error_detail.unwrap().kind, ErrorKind::Timeout);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    drop(events);
}

#[test]
fn a_reader_that_is_gone_is_not_waited_for() {
    let code = "import sys\nfor n in range(20_000):\n    print(n)\n    print(n, file=sys.stderr)";
    let request = Request::new(code).timeout(Duration::from_mins(1));
    let (run, ()) = read_with(request, |events| {
        events.next_blocking();
        *events = event_channel().1;
    });
    assert_eq!(run.outcome.stdout.lines().count(), 20_000);
    assert!(run.outcome.success);
}

#[test]
fn an_event_reaches_a_reader_that_waits_at_once() {
    let code = "import time\nfor n in range(50):\n    time.sleep(0.002)\n    \
                print(time.time_ns(), end='')\n    t = time.monotonic()\n    \
                while time.monotonic() < t + 0.005: pass";
    let request = Request::new(code).timeout(Duration::from_mins(1));
    let (_, mut late) = read_with(request, |events| {
        let mut late = Vec::new();
        while let Some(event) = events.next_blocking() {
            if let EventKind::Stdout { text } = event.kind {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                let written = Duration::from_nanos(text.parse().expect("one number"));
                late.push(now.unwrap().saturating_sub(written));
            }
        }
        late
    });
    late.sort();
    assert_eq!(late.len(), 50);
    // The budget is 1 ms; a busy machine gets more.
    assert!(late[25] < Duration::from_millis(4), "{late:?}");
}
