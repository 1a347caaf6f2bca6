//! Items 15 and 16, forks and rewinds: the state that a run inherits.

use belljar::request::{Deterministic, Echo};
use belljar::setup::Strategy;
use belljar::{Request, Runtime, Session, SessionOptions};

use super::{block_on, core, out, report, run, session_on, told};
use crate::support::{paths, runtime};

#[test]
fn contract_15_state_persists_also_from_before_a_failure() {
    block_on(async {
        let session = core().await;
        out(&session, "import json\nx = 20\nclass Point: pass\np = Point()").await;
        let failed = run(&session, Request::new("y = 5\np.y = y\n1/0\ny = 6")).await;
        assert_eq!(failed.error.as_deref(), Some("ZeroDivisionError: division by zero"));
        assert!(!report(&failed).interpreter_restarted);
        assert_eq!(report(&failed).execution, 2);
        assert_eq!(out(&session, "print(json.dumps([x, y, p.y]))").await, "[20, 5, 5]\n");
        session.close();
    });
}

#[test]
fn contract_16_a_session_echoes_every_expression() {
    block_on(async {
        let session = core().await;
        assert_eq!(out(&session, "1\n'two'\nNone\n[3]").await, "1\ntwo\n[3]\n");
        let quiet = run(&session, Request::new("1\n'two'").echo(Echo::Last)).await;
        assert_eq!(quiet.stdout, "'two'\n");
        session.close();
    });
}

#[test]
fn many_runs_find_each_other() {
    block_on(async {
        let session = core().await;
        out(&session, "total = 0").await;
        for n in 1..=300 {
            out(&session, &format!("total += {n}")).await;
        }
        assert_eq!(out(&session, "total").await, "45150\n");
        assert_eq!(session.execution().await, 302);
        session.close();
    });
}

#[test]
fn what_a_run_left_of_its_input_no_other_finds() {
    block_on(async {
        let session = core().await;
        let given = |code: &str, input: &str| Request::new(code).stdin(input);
        let printed = async |session: &Session, code: &str, input: &str| {
            let outcome = run(session, given(code, input)).await;
            assert!(outcome.success, "{:?}", outcome.error);
            outcome.stdout
        };
        // The guest buffers all of it, and takes a line.
        assert_eq!(printed(&session, "print(input())", "one\nleft\n").await, "one\n");
        let fork = session.fork().await.unwrap();
        assert_eq!(printed(&fork, "print(input())", "three\n").await, "three\n");
        fork.close();
        // A question in between, after which the memory is that of the run before.
        session.get("x").await.unwrap();
        assert_eq!(printed(&session, "print(input())", "four\n").await, "four\n");
        // Not read at all here, but by the next run.
        assert_eq!(printed(&session, "x = 1", "five\n").await, "");
        assert_eq!(printed(&session, "import sys; print(sys.stdin.read())", "six").await, "six\n");
        printed(&session, "sys.stdin.buffer.peek()", "seven\n").await;
        let execution = session.execution().await;
        assert_eq!(printed(&session, "print(sys.stdin.readline())", "8\n").await, "8\n\n");
        session.rewind(execution).await.unwrap();
        assert_eq!(printed(&session, "print(input())", "nine\n").await, "nine\n");
        for damage in [
            "sys.stdin.close()",
            "sys.stdin.detach()",
            "sys.stdin.buffer.close()",
            "sys.stdin.reconfigure(encoding='latin-1')",
            "sys.stdin = None",
            "import io; sys.stdin = sys.__stdin__ = io.StringIO('other')",
        ] {
            printed(&session, damage, "ten\n").await;
            assert_eq!(printed(&session, "print(input())", "ä\n").await, "ä\n", "{damage}");
        }
        session.close();
    });
}

#[test]
fn what_code_may_have_patched_is_not_looked_for_in_vain() {
    block_on(async {
        let session = session_on(runtime(), SessionOptions::new().image("data")).await;
        let fuel = async |code: &str| run(&session, Request::new(code)).await.usage.fuel;
        fuel("import mailbox\nglobals()['x'] = 1\nvars()['x'] = 2\nexec('x = 3')").await;
        let short = fuel("x = 4").await;
        assert!(short < 5_000_000, "{short}");
        // With a table there is something to find.
        let drawn = fuel("import pandas as pd\nframe = pd.DataFrame({'a': [1]})").await;
        assert!(drawn > 10 * short, "{drawn} and {short}");
        let same = fuel("x = 5").await;
        assert!(same < 5_000_000, "{same}");
        session.close();
    });
}

#[test]
fn each_run_has_its_own_input_limits_and_result() {
    block_on(async {
        let session = core().await;
        let first = run(&session, Request::new("result = input()").stdin("one\ntwo\n")).await;
        assert_eq!(first.result, "one");
        let second = run(&session, Request::new("print(input())").stdin("three\n")).await;
        assert_eq!((second.stdout.as_str(), second.result.is_null()), ("three\n", true));
        let third = run(&session, Request::new("input()")).await;
        assert!(third.error.unwrap().starts_with("EOFError"));
        let named = run(&session, Request::new("pass").result_var("result")).await;
        assert_eq!(named.result, "one");
        let mut request = Request::new("print('x' * 100)");
        request.limits.output = Some(10);
        assert_eq!(run(&session, request).await.stdout, "x".repeat(10));
        assert_eq!(out(&session, "print('y' * 100)").await, "y".repeat(100) + "\n");
        session.close();
    });
}

#[test]
fn files_are_listed_by_the_run_that_wrote_them() {
    block_on(async {
        let session = core().await;
        let one = run(&session, Request::new("open('a.txt', 'w').write('one')")).await;
        assert_eq!(paths(&one), ["a.txt"]);
        let request = Request::new("open('b.txt', 'w').write(open('in/c.txt').read())");
        let two = run(&session, request.file("in/c.txt", "given")).await;
        assert_eq!(paths(&two), ["b.txt"]);
        assert_eq!(session.read("b.txt").await.unwrap(), b"given");
        let three = run(&session, Request::new("open('a.txt', 'a').write('!')")).await;
        assert_eq!(paths(&three), ["a.txt"]);
        assert_eq!(session.read("a.txt").await.unwrap(), b"one!");
        assert!(paths(&run(&session, Request::new("pass")).await).is_empty());
        let (error, _) = told(session.read("../a.txt").await);
        assert_eq!(error, "the run left no file ../a.txt");
        session.close();
    });
}

#[test]
fn the_initial_code_and_environment_come_first() {
    block_on(async {
        let options = SessionOptions::new()
            .image("core")
            .init_code("import os\nvalue = os.environ['NAME'] + open('a.txt').read()")
            .env("NAME", "Ada")
            .file("a.txt", "!");
        let session = session_on(runtime(), options).await;
        assert_eq!(out(&session, "value").await, "Ada!\n");
        out(&session, "os.environ['NAME'] = 'Grace'\ndel value").await;
        assert_eq!(out(&session, "os.environ['NAME']").await, "Grace\n");
        session.reset().await.unwrap();
        assert_eq!(out(&session, "print(os.environ['NAME'], value)").await, "Ada Ada!\n");
        session.close();
    });
}

#[test]
fn a_fork_and_its_parent_do_not_see_each_other() {
    block_on(async {
        let parent = core().await;
        out(&parent, "x = [1]\nopen('a.txt', 'w').write('one')\nopen('/tmp/t', 'w').write('t')")
            .await;
        let child = parent.fork().await.unwrap();
        out(&child, "x.append('child')\nopen('a.txt', 'w').write('child')").await;
        out(&parent, "x.append('parent')\nimport os\nos.remove('/tmp/t')").await;
        let grandchild = child.fork().await.unwrap();
        let look = "print(x, open('a.txt').read(), __import__('os').path.exists('/tmp/t'))";
        assert_eq!(out(&parent, look).await, "[1, 'parent'] one False\n");
        assert_eq!(out(&child, look).await, "[1, 'child'] child True\n");
        child.close();
        assert_eq!(out(&grandchild, look).await, "[1, 'child'] child True\n");
        parent.close();
        assert_eq!(out(&grandchild, look).await, "[1, 'child'] child True\n");
        grandchild.close();
    });
}

/// Three levels deep, 64 ways each: every step is tried in 64 forks, and the best continues.
#[test]
fn a_tree_search_forks() {
    block_on(async {
        let mut best = core().await;
        out(&best, "target, value = 123456, 0\nimport random").await;
        for level in [64 * 64, 64, 1] {
            let mut tried = tokio::task::JoinSet::new();
            for way in 0..64 {
                let fork = best.fork().await.unwrap();
                tried.spawn(async move {
                    let step = format!("value += {way} * {level}\nresult = abs(target - value)");
                    let distance = run(&fork, Request::new(step)).await.result.as_u64().unwrap();
                    (distance, fork)
                });
            }
            let mut found = tried.join_all().await;
            found.sort_by_key(|(distance, _)| *distance);
            best.close();
            let mut found = found.into_iter();
            best = found.next().unwrap().1;
            found.for_each(|(_, other)| other.close());
        }
        assert_eq!(out(&best, "value").await, "123456\n");
        assert_eq!(best.history().await.unwrap().len(), 5);
        best.close();
    });
}

#[test]
fn a_rewind_goes_back_in_memory_and_files() {
    block_on(async {
        let session = core().await;
        for n in 1..=4 {
            out(&session, &format!("x = {n}\nopen('f{n}', 'w').write('{n}')")).await;
        }
        session.rewind(2).await.unwrap();
        let look = "import os\nprint(x, sorted(os.listdir()))";
        assert_eq!(out(&session, look).await, "2 ['f1', 'f2']\n");
        let history = session.history().await.unwrap();
        assert_eq!(history.iter().map(|e| e.execution).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(history[2].code, look);
        let (error, hint) = told(session.rewind(4).await);
        let expected = format!(
            "session {} cannot go back to the state after run 4; its history holds runs 1 to 3, \
             and 0 is its beginning",
            session.id()
        );
        assert_eq!(error, expected);
        assert_eq!(hint.unwrap(), "raise HistoryLimits to keep more");
        let later = session.rewind_keeping(1).await.unwrap();
        assert_eq!(out(&session, look).await, "1 ['f1']\n");
        assert_eq!(out(&later, look).await, "2 ['f1', 'f2']\n");
        session.close();
        later.close();
    });
}

#[test]
fn the_history_is_bounded_oldest_first() {
    block_on(async {
        let options = SessionOptions::new().image("core").history(3, 64 << 20);
        let by_count = session_on(runtime(), options).await;
        for n in 0..6 {
            out(&by_count, &format!("x = {n}")).await;
        }
        let numbers = |session: Session| async move {
            let history = session.history().await.unwrap();
            history.iter().map(|entry| entry.execution).collect::<Vec<_>>()
        };
        assert_eq!(numbers(by_count.clone()).await, [4, 5, 6]);
        let options = SessionOptions::new().image("core").history(100, 10 << 20);
        let by_bytes = session_on(runtime(), options).await;
        for _ in 0..6 {
            out(&by_bytes, "import os\nx = os.urandom(4 << 20)").await;
        }
        let kept = numbers(by_bytes.clone()).await;
        assert!((2..=4).contains(&kept.len()) && kept.ends_with(&[6]), "{kept:?}");
        // The beginning is always available.
        by_bytes.rewind(0).await.unwrap();
        assert_eq!(out(&by_bytes, "'x' in globals()").await, "False\n");
        by_count.close();
        by_bytes.close();
    });
}

#[test]
fn random_generators_differ_after_a_fork() {
    block_on(async {
        let draw = "import random, uuid, tempfile\nrandom.random(), uuid.uuid4(), os.urandom(4)";
        let session = core().await;
        out(&session, "import os, random").await;
        let one = session.fork().await.unwrap();
        let two = session.fork().await.unwrap();
        assert_ne!(out(&one, draw).await, out(&two, draw).await);
        // Within a session generators seeded by the code keep their state, also across a
        // suspension.
        out(&session, "random.seed(42)").await;
        assert!(session.suspend().await);
        assert_eq!(out(&session, "random.randint(0, 10**6)").await, "670487\n");
        for session in [session, one, two] {
            session.close();
        }
    });
}

#[test]
fn deterministic_sessions_are_repeatable() {
    block_on(async {
        let steps = [
            "import random, time, uuid\nprint(random.random(), time.time(), uuid.uuid4())",
            "x = time.monotonic()\nprint(x, random.random())",
            "print(uuid.uuid4(), time.time())",
        ];
        let mut seen = Vec::new();
        for way in 0..4 {
            let options =
                SessionOptions::new().image("core").deterministic(Deterministic::default());
            let mut session = session_on(runtime(), options).await;
            let mut outcomes = Vec::new();
            for step in steps {
                let outcome = run(&session, Request::new(step)).await;
                outcomes.push((outcome.stdout, outcome.usage.wall_ms.to_bits()));
                match way {
                    1 => assert!(session.suspend().await),
                    2 => session = session.fork().await.unwrap(),
                    _ => {}
                }
            }
            seen.push(outcomes);
            session.close();
        }
        assert!(seen.iter().all(|outcomes| *outcomes == seen[0]), "{seen:#?}");
    });
}

#[test]
fn time_goes_on_across_a_suspension() {
    block_on(async {
        let session = core().await;
        out(&session, "import time\nbefore = time.monotonic()\ntime.sleep(0.05)").await;
        assert!(session.suspend().await);
        assert_eq!(out(&session, "0.05 <= time.monotonic() - before < 60").await, "True\n");
        session.close();
    });
}

#[test]
fn the_portable_way_does_the_same() {
    block_on(async {
        let runtime =
            Runtime::builder().environment().memory_strategy(Strategy::Copy).build().unwrap();
        let session = session_on(&runtime, SessionOptions::new().image("core")).await;
        out(&session, "x = list(range(100_000))").await;
        out(&session, "x.append('more')").await;
        let fork = session.fork().await.unwrap();
        out(&fork, "x.clear()").await;
        assert!(session.suspend().await);
        assert_eq!(out(&session, "print(len(x), x[-1])").await, "100001 more\n");
        session.rewind(1).await.unwrap();
        assert_eq!(out(&session, "print(len(x), x[-1])").await, "100000 99999\n");
        assert_eq!(out(&fork, "x").await, "[]\n");
    });
}

#[test]
fn hard_links_stay_and_are_kept_once() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = core().await;
        let make = "import os\nopen('a', 'wb').write(os.urandom(1 << 20))\n\
                    for n in range(20): os.link('a', f'l{n}')\nos.link('a', '/tmp/far')";
        out(&session, make).await;
        session.checkpoint(&path).await.unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 4 << 20);
        assert!(session.suspend().await);
        let look = "open('l7', 'r+b').write(b'new')\n\
                    print(os.stat('a').st_nlink, open('/tmp/far', 'rb').read(3))";
        assert!(out(&session, look).await.ends_with("22 b'new'\n"));
        out(&session, "os.remove('l7')\nopen('l7', 'w').write('apart')").await;
        assert!(session.suspend().await);
        let look = "print(os.stat('a').st_nlink, open('l7').read(), os.stat('l7').st_nlink)";
        assert_eq!(out(&session, look).await, "21 apart 1\n");
        session.close();
    });
}

#[test]
fn a_directory_that_was_removed_does_not_come_back() {
    block_on(async {
        let session = core().await;
        out(&session, "import os\nos.mkdir('d')").await;
        out(&session, "os.rmdir('d')").await;
        assert!(session.suspend().await);
        assert_eq!(out(&session, "os.listdir()").await, "[]\n");
        session.close();
    });
}

#[test]
#[cfg(unix)]
fn a_backslash_in_a_name_is_a_character_like_others() {
    block_on(async {
        let session = core().await;
        out(&session, r"_ = open('C:\\data.csv', 'w').write('a')").await;
        assert!(session.suspend().await);
        assert_eq!(out(&session, r"print(open('C:\\data.csv').read())").await, "a\n");
        session.close();
    });
}

#[test]
fn a_file_without_a_name_is_kept_once() {
    block_on(async {
        let limits = belljar::RequestLimits::default().workspace(1 << 20);
        let options = SessionOptions::new().image("core").run_limits(limits).history(100, 16 << 20);
        let session = session_on(runtime(), options).await;
        out(&session, "import tempfile\nf = tempfile.TemporaryFile()\n_ = f.write(bytes(900_000))")
            .await;
        // It is restored whatever names the code used.
        out(&session, "for n in range(3): open(f'/tmp/.belljar-nameless-{n}', 'w').close()").await;
        for n in 0..20 {
            out(&session, &format!("x = {n}")).await;
        }
        assert_eq!(session.history().await.unwrap().len(), 22, "it is the same in all of them");
        // Each of these leaves another version behind, for few of which the history has room.
        for n in 0..20 {
            out(&session, &format!("f.seek({n})\n_ = f.write(b'x')\nf.flush()")).await;
        }
        let entries = session.history().await.unwrap().len();
        // The latest, and those before it, which have 16 MiB together.
        assert!((2..=1 + (16 << 20) / 900_000).contains(&entries), "{entries}");
        assert!(session.suspend().await);
        assert_eq!(
            out(&session, "_ = f.seek(0)\nprint(f.read(3), f.seek(0, 2))").await,
            "b'xxx' 900000\n"
        );
        session.close();
    });
}

#[test]
fn what_belongs_to_a_whole_session_is_refused_for_one_run() {
    block_on(async {
        let session = core().await;
        let request = Request::new("1")
            .image("data")
            .memory_mib(64)
            .mount("/", "/data")
            .deterministic(Deterministic::default());
        let (error, _) = told(session.run(request).await);
        assert_eq!(
            error,
            "the request is refused: image: set for a whole session, not for one of its runs; \
             mounts: set for a whole session, not for one of its runs; deterministic: set for a \
             whole session, not for one of its runs; limits.memory: set for a whole session, not \
             for one of its runs"
        );
        assert_eq!(session.execution().await, 0);
        // Its own image may be named.
        succeeds(&session, Request::new("1").image("core")).await;
        session.close();
    });
}

async fn succeeds(session: &Session, request: Request) {
    crate::support::succeeded(&run(session, request).await);
}
