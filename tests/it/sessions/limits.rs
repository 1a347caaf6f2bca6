//! Limits on a whole session: a clear outcome at each of them.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use belljar::event::{OutputWatcher, Stream};
use belljar::outcome::ErrorKind;
use belljar::session::RestoreOptions;
use belljar::store::{Condition, MemoryStore, Store};
use belljar::{Request, RequestLimits, Session, SessionOptions};

use super::{block_on, out, restarted, run, session_on, told};
use crate::support::{alone, failed, runtime};

fn core() -> SessionOptions {
    SessionOptions::new().image("core")
}

#[test]
fn fuel_of_all_runs() {
    block_on(async {
        let session = session_on(runtime(), core().total_fuel(200_000_000)).await;
        out(&session, "x = 1").await;
        let outcome = run(&session, Request::new("while True: pass")).await;
        failed(&outcome, ErrorKind::Fuel);
        let over = run(&session, Request::new("x")).await;
        failed(&over, ErrorKind::Fuel);
        let text = "The session has used all of its fuel, 200000000";
        assert_eq!(over.error.as_deref(), Some(text));
        // A fork has no more of it than its parent.
        let fork = session.fork().await.unwrap();
        assert_eq!(run(&fork, Request::new("x")).await.error.as_deref(), Some(text));
        fork.close();
        session.close();
    });
}

#[test]
fn lifetime_and_idle_time() {
    block_on(async {
        let brief = Duration::from_millis(1500);
        let session = session_on(runtime(), core().lifetime(brief)).await;
        out(&session, "x = 1").await;
        tokio::time::sleep(brief).await;
        let over = run(&session, Request::new("x")).await;
        failed(&over, ErrorKind::Timeout);
        assert_eq!(over.error.as_deref(), Some("The session's lifetime of 1.5 seconds is over"));
        session.close();

        let session = session_on(runtime(), core().idle(brief)).await;
        out(&session, "x = 1").await;
        tokio::time::sleep(brief).await;
        let over = run(&session, Request::new("x")).await;
        failed(&over, ErrorKind::Timeout);
        let text = "The session was idle for longer than 1.5 seconds";
        assert_eq!(over.error.as_deref(), Some(text));
        session.close();
    });
}

/// Past a time limit, neither the session nor anything made from it runs again, whatever is done
/// with it.
#[test]
fn a_session_stays_past_its_limits_of_time() {
    let brief = Duration::from_millis(300);
    block_on(stays_over(core().lifetime(brief), brief, "lifetime"));
    block_on(stays_over(core().idle(brief), brief, "idle"));
}

async fn stays_over(options: SessionOptions, brief: Duration, limit: &str) {
    let is_over = async |session: &Session| {
        let over = run(session, Request::new("x")).await;
        over.error.is_some_and(|error| error.contains(limit))
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.belljar");
    let session = session_on(runtime(), options).await;
    tokio::time::sleep(brief).await;
    session.workspace().write("a", &b"x"[..]).await.unwrap();
    session.set("x", 1).await.unwrap();
    assert!(is_over(&session).await, "{limit}: a change began it anew");
    let kept = session.rewind_keeping(0).await.unwrap();
    assert!(is_over(&session).await && is_over(&kept).await, "{limit}: a rewind began it anew");
    session.reset().await.unwrap();
    assert!(is_over(&session).await, "{limit}: a reset began it anew");
    let fork = session.fork().await.unwrap();
    assert!(is_over(&fork).await, "{limit}: a fork began it anew");
    session.checkpoint(&file).await.unwrap();
    let restored = runtime().restore(file.as_path()).await.unwrap();
    assert!(is_over(&restored).await, "{limit}: a checkpoint began it anew");
    let _ = fork.save(&store, "s", Condition::Always).await.unwrap();
    let stored = RestoreOptions::stored(Arc::clone(&store), "s");
    let stored = runtime().restore(stored).await.unwrap();
    assert!(is_over(&stored).await, "{limit}: a store began it anew");
    assert!(session.suspend().await);
    assert!(is_over(&session).await, "{limit}: waking began it anew");
    for session in [session, kept, fork, restored, stored] {
        session.close();
    }
}

#[test]
fn memory_and_disk_of_all_runs() {
    block_on(async {
        let limits = RequestLimits::default().memory(48 << 20).workspace(1 << 20).files(5);
        let session = session_on(runtime(), core().run_limits(limits)).await;
        out(&session, "x = bytearray(30 << 20)\nopen('a', 'w').write('a' * 700_000)").await;
        let second = run(&session, Request::new("y = bytearray(30 << 20)")).await;
        failed(&second, ErrorKind::Memory);
        // Also after it was suspended and resumed.
        for suspended in [false, true] {
            if suspended {
                assert!(session.suspend().await);
            }
            let more = run(&session, Request::new("open('b', 'w').write('b' * 700_000)")).await;
            assert!(more.error.as_ref().is_some_and(|e| e.starts_with("OSError")), "{more:#?}");
            let many = "for n in range(9): open(f'n{n}', 'w')";
            let many = run(&session, Request::new(many)).await;
            assert!(many.error.as_ref().unwrap().starts_with("OSError"), "{many:#?}");
        }
        // Files placed by the host do not count.
        let given = Request::new("len(open('given').read())").file("given", vec![b'g'; 2 << 20]);
        assert_eq!(run(&session, given).await.stdout, "2097152\n");
        session.close();
    });
}

/// Files placed for a run make room for as much again as the limit allows, and no more.
#[test]
fn files_that_are_placed_again_do_not_raise_the_limits_for_ever() {
    block_on(async {
        let limits = RequestLimits::default().workspace(1 << 20).files(8);
        let session = session_on(runtime(), core().run_limits(limits)).await;
        for _ in 0..20 {
            let placed = Request::new("1").file("given", vec![b'g'; 300 << 10]);
            assert!(run(&session, placed).await.error.is_none());
        }
        let code = "written = names = 0\n\
                    try:\n    with open('a', 'wb', 0) as a:\n        \
                    while written < 1000: written += a.write(bytes(10240)) // 10240\n\
                    except OSError: pass\n\
                    try:\n    while names < 100:\n        open(f'n{names}', 'w').close(); names += 1\n\
                    except OSError: pass\n\
                    print(written, names)";
        // 2 MiB without the 300 KiB of placed files, and 16 names without that one and `a`. A
        // suspended session has only as much room for placed files as they take.
        for (suspended, expected) in [(false, ("174", "14")), (true, ("102", "7"))] {
            if suspended {
                out(
                    &session,
                    "import os\nfor name in os.listdir(): name == 'given' or os.remove(name)",
                )
                .await;
                assert!(session.suspend().await);
            }
            let told = run(&session, Request::new(code)).await.stdout;
            let (written, names) = told.trim().split_once(' ').unwrap();
            assert_eq!((written, names), expected);
        }
        session.close();
    });
}

/// However small the session's own limits are.
#[test]
fn a_session_of_many_placed_files_comes_back() {
    block_on(async {
        let limits = RequestLimits::default().workspace(1 << 20).files(2);
        let options = core().run_limits(limits).history(1, 0);
        let session = session_on(runtime(), options).await;
        for n in 0..12 {
            let placed = Request::new("1").file(format!("{n}"), vec![b'g'; 1 << 20]);
            assert!(run(&session, placed).await.error.is_none());
        }
        assert!(session.suspend().await);
        assert_eq!(out(&session, "import os\nlen(os.listdir())").await, "12\n");
        session.close();
    });
}

#[test]
fn a_variable_that_is_set_takes_no_room_from_placed_files() {
    block_on(async {
        let limits = RequestLimits::default().workspace(1 << 20);
        let session = session_on(runtime(), core().run_limits(limits)).await;
        let placed = Request::new("1").file("given", vec![b'g'; 2 << 20]);
        assert!(run(&session, placed).await.error.is_none());
        session.set("x", 0.5).await.unwrap();
        for suspended in [false, true] {
            if suspended {
                assert!(session.suspend().await);
            }
            out(&session, "_ = open('a', 'wb').write(bytes(900_000))").await;
        }
        session.close();
    });
}

/// Otherwise every crash would leave room for one more of them.
#[test]
fn files_without_a_name_count_also_after_a_crash() {
    block_on(async {
        let limits = RequestLimits::default().workspace(1 << 20);
        let session = session_on(runtime(), core().run_limits(limits)).await;
        let another = "import tempfile, os\nf = tempfile.TemporaryFile()\n\
                       _ = f.write(bytes(700_000)), f.flush()";
        out(&session, &format!("kept = []\n{another}\nkept.append(f)")).await;
        failed(&run(&session, Request::new("os._exit(1)")).await, ErrorKind::Crash);
        let second = run(&session, Request::new(another)).await;
        assert!(second.error.as_ref().is_some_and(|e| e.starts_with("OSError")), "{second:#?}");
        session.close();
    });
}

#[test]
fn initial_code_that_fails_makes_no_session() {
    block_on(async {
        let (error, hint) = told(runtime().session(core().init_code("1/0")).await);
        assert_eq!(error, "the session's initial code failed: ZeroDivisionError: division by zero");
        assert!(hint.is_some());
    });
}

#[test]
fn a_file_that_is_open_many_times_is_kept_once() {
    block_on(async {
        let session = session_on(runtime(), core()).await;
        let open = "import os\n\
                    with open('/tmp/x', 'wb') as f: _ = f.write(bytes(40 << 20))\n\
                    held = [open('/tmp/x', 'r+b', buffering=0) for _ in range(200)]\n\
                    os.unlink('/tmp/x')";
        out(&session, open).await;
        let lost = run(&session, Request::new("os._exit(1)")).await;
        restarted(&lost, ErrorKind::Crash, "ProcessExit");
        // It is still one file.
        let look = "held[0].write(b'one')\nprint(held[199].read(3), os.listdir('/tmp'))";
        assert_eq!(out(&session, look).await, "3\nb'one' []\n");
        session.close();
    });
}

#[test]
fn open_files_are_found_again_in_bounded_time() {
    block_on(async {
        let limits = RequestLimits::default().files(5_000);
        let options = SessionOptions::new().image("core").run_limits(limits);
        let mut took = Vec::new();
        for held in [0, 240] {
            let session = session_on(runtime(), options.clone()).await;
            let open = format!(
                "import os\nheld = []\n\
                 for n in range(4_700): open(f'/tmp/.belljar-nameless-{{n}}', 'w').close()\n\
                 for n in range({held}):\n    held.append(open('x', 'wb'))\n    \
                 os.rename('x', f'x{{n}}') if n % 2 else os.unlink('x')"
            );
            let opened = run(&session, Request::new(open).timeout(Duration::from_mins(1))).await;
            assert!(opened.success, "{opened:?}");
            let started = Instant::now();
            out(&session, "1").await;
            let lost = run(&session, Request::new("os._exit(1)")).await;
            restarted(&lost, ErrorKind::Crash, "ProcessExit");
            out(&session, "[f.write(b'x') for f in held]").await;
            took.push(started.elapsed());
            session.close();
        }
        // Independent of the disk: open files cost little compared with existing ones.
        assert!(took[1] < 4 * took[0] + Duration::from_secs(2), "{took:?}");
    });
}

#[test]
fn many_names_and_pieces_of_memory_leave_room_for_less_history() {
    block_on(async {
        let options = core().history(1_000, 4 << 20);
        let session = session_on(runtime(), options).await;
        let make = "import os\nfor n in range(900): open(f'{n}'.ljust(200, 'x'), 'w').close()\n\
                    b = bytearray(16 << 20)\nfor n in range(0, len(b), 8192): b[n] = 1";
        out(&session, make).await;
        for n in 0..40 {
            out(&session, &format!("_ = open('x', 'w').write('{n}')")).await;
        }
        let entries = session.history().await.unwrap().len();
        assert!((2..=20).contains(&entries), "{entries}");
        session.close();
    });
}

/// A run's changes are copied by a different thread, because the thread that ran it has other
/// guests to serve: its share of the processor time is small.
#[test]
fn what_is_written_again_is_set_aside_on_another_thread() {
    alone("sessions::limits::what_is_written_again_is_set_aside_on_another_thread", || {
        let end = Arc::new(EndOfCode::default());
        // One thread for all runs.
        let spent = crate::support::tokio(1).block_on(async {
            let limits = RequestLimits::default().memory(600 << 20).timeout(Duration::from_mins(2));
            let session = session_on(runtime(), core().run_limits(limits)).await;
            out(&session, "b = bytearray(500 << 20)").await;
            let write = "for n in range(0, len(b), 8192): b[n] = 1\nprint('written')";
            let (running, watcher) = (session.clone(), Arc::clone(&end));
            let worker = tokio::spawn(async move {
                let run = running.run(Request::new(write).watch(watcher)).await.unwrap();
                assert_eq!(run.stdout, "written\n");
                ticks("/proc/thread-self/stat")
            });
            let worker = worker.await.unwrap();
            // The work after the outcome.
            session.history().await.unwrap();
            session.close();
            (worker, ticks("/proc/self/stat"))
        });
        let (worker_before, all_before) = end.0.lock().unwrap().expect("it printed something");
        let (worker, all) = (spent.0 - worker_before, spent.1 - all_before);
        assert!(all >= 4, "{all} hundredths of a second to copy 250 MiB: nothing is measured");
        assert!(worker * 2 < all, "{worker} of {all} hundredths of a second on the run's thread");
    });
}

/// Processor time of the run's thread and of the process at the end of the code.
#[derive(Default)]
struct EndOfCode(Mutex<Option<(u64, u64)>>);

impl OutputWatcher for EndOfCode {
    fn write(&self, _: Stream, _: &[u8]) {
        *self.0.lock().unwrap() = Some((ticks("/proc/thread-self/stat"), ticks("/proc/self/stat")));
    }
}

/// Processor time in hundredths of a second.
fn ticks(stat: &str) -> u64 {
    let stat = fs::read_to_string(stat).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().unwrap()).sum()
}
