//! Files of a session accessed without a run: operations, visibility, and hostile guests.

use std::io::{self, Read};
use std::time::Duration;

use belljar::error::{PathProblem, SessionError};
use belljar::session::{PathEntry, PathKind, RegistryLimits, RestoreOptions, SessionStatus};
use belljar::{Error, Request, Runtime, Session, SessionOptions};

use super::{block_on, core, out, run, session_on};
use crate::support::{failed, runtime};

fn names(entries: &[PathEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.path.as_str()).collect()
}

async fn all(session: &Session) -> Vec<String> {
    let entries = session.workspace().list("", usize::MAX).await.unwrap();
    entries.into_iter().map(|entry| entry.path).collect()
}

#[track_caller]
fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> PathProblem {
    match result {
        Err(Error::Session(SessionError::Path { problem, .. })) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sessions_that_take_turns_share_their_files() {
    block_on(async {
        let (a, b) = (core().await, core().await);
        let (of_a, of_b) = (a.workspace(), b.workspace());
        assert!(!of_b.replace_with(&of_a).await.unwrap(), "nothing has changed");
        out(&a, "x = 'of a'\nopen('one', 'w').write('1') and None\nopen('/tmp/t', 'w').write('t') and None").await;
        out(&b, "x = 'of b'\nopen('mine', 'w').write('0') and None\nmine = open('mine')").await;
        assert!(of_b.replace_with(&of_a).await.unwrap());
        assert!(!of_b.replace_with(&of_a).await.unwrap(), "they are the same already");
        assert_eq!(all(&b).await, ["one"]);
        let seen = "print(x, os.listdir(), open('/tmp/t').read(), mine.read())";
        assert_eq!(out(&b, &format!("import os\n{seen}")).await, "of b ['one'] t 0\n");
        out(&b, "open('one', 'a').write('2') and None\nos.mkdir('d')").await;
        assert!(of_a.replace_with(&of_b).await.unwrap());
        let seen = "import os\nprint(x, sorted(os.listdir()), open('one').read())";
        assert_eq!(out(&a, seen).await, "of a ['d', 'one'] 12\n");
        assert!(of_a.replace_with(&of_a.clone()).await.is_ok_and(|changed| !changed));
        let small = session_on(
            runtime(),
            SessionOptions::new()
                .image("core")
                .run_limits(belljar::RequestLimits::default().workspace(1)),
        )
        .await;
        let refused = small.workspace().replace_with(&of_a).await;
        assert_eq!(problem(refused), PathProblem::TooManyBytes);
        a.close();
        assert!(of_b.replace_with(&of_a).await.is_err());
        assert_eq!(out(&b, "print(open('one').read())").await, "12\n");
    });
}

#[test]
fn files_are_written_seen_and_read_without_a_run() {
    block_on(async {
        let session = core().await;
        let files = session.workspace();
        let written = files.write("data/in.txt", &b"0123456789"[..]).await.unwrap();
        assert_eq!((written.path.as_str(), written.size), ("data/in.txt", 10));
        assert_eq!(out(&session, "print(open('data/in.txt').read())").await, "0123456789\n");
        out(&session, "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('xyz') and None")
            .await;
        assert_eq!(names(&files.list("", 1).await.unwrap()), ["a", "data"]);
        assert_eq!(names(&files.list("a", 2).await.unwrap()), ["a/b", "a/b/c"]);
        let c = files.stat("a/b/c").await.unwrap();
        assert_eq!((c.kind, c.size, c.modified.is_some()), (PathKind::File, 3, true));
        assert_eq!(files.stat("").await.unwrap().kind, PathKind::Directory);
        assert_eq!(files.read("data/in.txt", 2..5).await.unwrap(), b"234");
        assert_eq!(files.read("data/in.txt", ..).await.unwrap(), b"0123456789");
        assert_eq!(files.read("data/in.txt", 8..=100).await.unwrap(), b"89");
        assert_eq!(session.read("data/in.txt").await.unwrap(), b"0123456789");

        files.make_dir("made/here").await.unwrap();
        files.rename("a/b", "made/here/b").await.unwrap();
        files.remove("data").await.unwrap();
        let expected = ["a", "made", "made/here", "made/here/b", "made/here/b/c"];
        assert_eq!(all(&session).await, expected);
        let seen = "print(sorted(os.listdir()), open('made/here/b/c').read())";
        assert_eq!(out(&session, seen).await, "['a', 'made'] xyz\n");
        // A variable of an earlier run exists: it is the same interpreter.
        assert_eq!(session.execution().await, 3);
        session.close();
        assert!(matches!(
            files.list("", 1).await,
            Err(Error::Session(SessionError::NotFound { .. }))
        ));
    });
}

#[test]
fn temporary_files_are_files_of_the_session() {
    block_on(async {
        let session = core().await;
        let files = session.all_files();
        let written = files.write("/tmp/d/a", &b"1"[..]).await.unwrap();
        assert_eq!((written.path.as_str(), written.size), ("/tmp/d/a", 1));
        assert_eq!(out(&session, "print(open('/tmp/d/a').read())").await, "1\n");
        out(&session, "open('/tmp/b', 'w').write('22') and None").await;
        assert_eq!(names(&files.list("/tmp", 2).await.unwrap()), ["/tmp/b", "/tmp/d", "/tmp/d/a"]);
        assert_eq!(all(&session).await, [""; 0]);
        files.rename("/tmp/b", "/workspace/b").await.unwrap();
        files.rename("/workspace/b", "/tmp/d/b").await.unwrap();
        files.make_dir("/workspace/e").await.unwrap();
        assert_eq!(files.read("/tmp/d/b", ..).await.unwrap(), b"22");
        assert_eq!((all(&session).await, files.bytes().await.unwrap()), (vec!["e".to_owned()], 3));

        let checkpoint = tempfile::NamedTempFile::new().unwrap();
        session.checkpoint_to(checkpoint.reopen().unwrap()).await.unwrap();
        let fork = session.fork().await.unwrap();
        fork.all_files().remove("/tmp/d").await.unwrap();
        assert_eq!(names(&files.list("/tmp", 1).await.unwrap()), ["/tmp/d"]);
        session.rewind(1).await.unwrap();
        assert_eq!(names(&files.list("/tmp", 2).await.unwrap()), ["/tmp/d", "/tmp/d/a"]);
        assert!(session.suspend().await);
        assert_eq!(files.read("/tmp/d/a", ..).await.unwrap(), b"1");
        let options = RestoreOptions::reader(checkpoint.reopen().unwrap());
        let restored = runtime().restore(options).await.unwrap();
        assert_eq!(restored.all_files().read("/tmp/d/b", ..).await.unwrap(), b"22");

        for top in ["/tmp", "/workspace"] {
            assert_eq!(problem(files.remove(top).await), PathProblem::IsRoot);
            assert_eq!(problem(files.write(top, &b""[..]).await), PathProblem::IsRoot);
            assert_eq!(problem(files.rename(top, "/tmp/x").await), PathProblem::IsRoot);
        }
        for path in ["", "/", "a", "/etc/x", "/tmp/../etc", "/tmp/", "/tmpx", "/tmp//x"] {
            assert!(matches!(problem(files.stat(path).await), PathProblem::Invalid(_)), "{path}");
            let written = files.write(path, &b""[..]).await;
            assert!(matches!(problem(written), PathProblem::Invalid(_)), "{path}");
        }
        // Paths in the workspace stay relative.
        let refused = session.workspace().write("/tmp/x", &b""[..]).await;
        assert!(matches!(problem(refused), PathProblem::Invalid(_)));
        let refused = session.workspace().stat("/tmp").await;
        assert!(matches!(problem(refused), PathProblem::Invalid(_)));
    });
}

#[test]
fn what_cannot_be_done_is_said() {
    block_on(async {
        let session = core().await;
        let files = session.workspace();
        files.write("f", &b"1"[..]).await.unwrap();
        files.make_dir("d").await.unwrap();
        for path in ["/etc/passwd", "../x", "a//b", "a/./b", "a\\b", "a\0b"] {
            let invalid = |found| matches!(found, PathProblem::Invalid(_));
            assert!(invalid(problem(files.read(path, ..).await)), "{path}");
            assert!(invalid(problem(files.write(path, &b""[..]).await)), "{path}");
            assert!(invalid(problem(files.rename("f", path).await)), "{path}");
            assert!(invalid(problem(files.remove(path).await)), "{path}");
        }
        assert_eq!(problem(files.read("d", ..).await), PathProblem::IsDirectory);
        assert_eq!(problem(files.write("d", &b""[..]).await), PathProblem::IsDirectory);
        assert_eq!(problem(files.write("f/g", &b""[..]).await), PathProblem::NotDirectory);
        assert_eq!(problem(files.list("f", 1).await), PathProblem::NotDirectory);
        assert_eq!(problem(files.make_dir("f").await), PathProblem::Exists);
        assert_eq!(problem(files.rename("f", "d").await), PathProblem::Exists);
        let missing = files.stat("none").await.unwrap_err();
        assert_eq!(missing.code(), "no_such_file");
        assert_eq!(
            missing.to_string(),
            format!(
                "cannot look at \"none\" in session {}: there is no such file or directory",
                session.id()
            )
        );
        assert_eq!(all(&session).await, ["d", "f"]);
        session.close();
    });
}

/// Returns some bytes, and then fails.
struct Broken(u32);

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| io::Error::other("the line is cut"))?;
        buffer.fill(b'x');
        Ok(buffer.len())
    }
}

#[test]
fn nothing_is_written_beyond_the_limits_or_from_a_broken_reader() {
    block_on(async {
        let mut options = SessionOptions::new().image("core");
        options.start.limits.workspace = Some(200_000);
        options.start.limits.files = Some(5);
        let session = session_on(runtime(), options).await;
        let files = session.workspace();
        files.write("most", io::repeat(b'x').take(150_000)).await.unwrap();
        assert_eq!(
            problem(files.write("endless", io::repeat(b'x')).await),
            PathProblem::TooManyBytes
        );
        assert_eq!(
            problem(files.write("rest", io::repeat(b'x').take(50_001)).await),
            PathProblem::TooManyBytes
        );
        files.write("rest", io::repeat(b'x').take(50_000)).await.unwrap();
        let full = run(&session, Request::new("with open('more', 'w') as f: f.write('xx')")).await;
        assert!(full.error.unwrap().contains("No space left"));
        files.write("rest", &b""[..]).await.unwrap();
        files.make_dir("a/b").await.unwrap();
        out(&session, "import os\nos.remove('more')").await;
        let full = files.make_dir("c/d").await.unwrap_err();
        assert_eq!(
            (full.code(), problem::<()>(Err(full))),
            ("session.full", PathProblem::TooManyFiles)
        );
        for rounds in [0, 1, 3] {
            let broken = files.write("broken", Broken(rounds)).await.unwrap_err();
            assert_eq!(broken.code(), "session.source");
        }
        assert_eq!(all(&session).await, ["a", "a/b", "most", "rest"]);
        session.close();
    });
}

/// Otherwise code could hold each file open and delete it, and have room for the next, repeatedly.
#[test]
fn a_deleted_file_that_is_open_takes_its_room() {
    block_on(async {
        let limits = belljar::RequestLimits::default().workspace(1 << 20);
        let options = SessionOptions::new().image("core").run_limits(limits);
        let session = session_on(runtime(), options).await;
        let files = session.workspace();
        let write = |path: &'static str| files.write(path, io::repeat(7).take(700_000));
        write("by-code").await.unwrap();
        out(&session, "import os\nfile = open('by-code', 'rb')\nos.unlink('by-code')").await;
        assert_eq!(problem(write("next").await), PathProblem::TooManyBytes);
        out(&session, "file.close()").await;
        write("by-host").await.unwrap();
        out(&session, "file = open('by-host', 'rb')").await;
        files.remove("by-host").await.unwrap();
        assert_eq!(problem(write("next").await), PathProblem::TooManyBytes);
        assert_eq!(out(&session, "print(len(file.read()))\nfile.close()").await, "700000\n");
        write("next").await.unwrap();
        session.close();
    });
}

#[test]
fn a_suspended_session_has_its_files_at_hand() {
    block_on(async {
        let session = core().await;
        out(&session, "x = 7\nopen('big', 'w').write('y' * 100_000) and None").await;
        assert!(session.suspend().await);
        assert_eq!(session.info().status, SessionStatus::Suspended);
        let files = session.workspace();
        assert_eq!(names(&files.list("", 1).await.unwrap()), ["big"]);
        assert_eq!(files.read("big", 99_998..).await.unwrap(), b"yy");
        files.write("new", &b"n"[..]).await.unwrap();
        assert!(session.suspend().await);
        files.rename("new", "newer").await.unwrap();
        assert!(session.suspend().await);
        assert_eq!(out(&session, "print(x, open('newer').read())").await, "7 n\n");
        session.close();
    });
}

#[test]
fn a_change_belongs_to_the_latest_state() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let session = core().await;
        let files = session.workspace();
        out(&session, "x = 1").await;
        files.write("after-1", &b"1"[..]).await.unwrap();
        let fork = session.fork().await.unwrap();
        out(&session, "x = 2").await;
        files.write("after-2", &b"2"[..]).await.unwrap();
        let checkpoint = folder.path().join("session.belljar");
        session.checkpoint(&checkpoint).await.unwrap();
        assert_eq!(all(&session).await, ["after-1", "after-2"]);
        fork.workspace().remove("after-1").await.unwrap();
        assert_eq!(all(&fork).await, [""; 0]);

        // Changes after run 2 belong neither to the state after it, nor to the one before.
        session.rewind(2).await.unwrap();
        assert_eq!(all(&session).await, ["after-1"]);
        session.rewind(1).await.unwrap();
        assert_eq!(all(&session).await, [""; 0]);
        let restored = runtime().restore(RestoreOptions::file(&checkpoint)).await.unwrap();
        assert_eq!(all(&restored).await, ["after-1", "after-2"]);
        assert_eq!(out(&restored, "print(x, open('after-2').read())").await, "2 2\n");
        for session in [session, fork, restored] {
            session.close();
        }
    });
}

#[test]
fn open_files_go_with_what_is_moved_and_stay_open_when_it_is_removed() {
    block_on(async {
        let session = core().await;
        let code = "import os\nos.mkdir('d')\nos.symlink('d', 'l')\n\
            moved = open('l/moved', 'w+')\ngone = [open('d/gone', 'w+') for _ in range(2)]\n\
            for f in (moved, gone[0]): f.write('begun ') and f.flush()\n\
            os.link('d/gone', 'other') if False else None";
        out(&session, code).await;
        let files = session.workspace();
        files.rename("d/moved", "d/elsewhere").await.unwrap();
        files.rename("d", "e").await.unwrap();
        files.remove("l").await.unwrap();
        files.remove("e/gone").await.unwrap();
        let more = "moved.write('ended'); moved.flush(); gone[0].write('x'); gone[0].flush()\n\
            gone[1].seek(0); print(gone[1].read(), open('e/elsewhere').read(), os.listdir('e'))";
        let printed = out(&session, &format!("{more}\nNone")).await;
        assert!(printed.ends_with("begun x begun ended ['elsewhere']\n"), "{printed}");
        files.remove("e").await.unwrap();
        assert!(out(&session, "moved.seek(0)\nmoved.read()").await.ends_with("begun ended\n"));
        session.close();
    });
}

#[test]
fn links_of_a_guest_lead_nowhere() {
    block_on(async {
        let session = core().await;
        let code = "import os\nos.mkdir('d')\nopen('d/f', 'w').write('1')\n\
            os.symlink('d', 'l')\nos.symlink('d/f', 'lf')\nos.symlink('../../../../etc', 'd/up')\n\
            os.symlink('loop', 'loop')";
        out(&session, code).await;
        let files = session.workspace();
        for path in ["l/f", "d/up/passwd", "loop/x"] {
            assert_eq!(problem(files.read(path, ..).await), PathProblem::IsLink);
            assert_eq!(problem(files.write(path, &b"2"[..]).await), PathProblem::IsLink);
            assert_eq!(problem(files.remove(path).await), PathProblem::IsLink);
            assert_eq!(problem(files.rename("d/f", path).await), PathProblem::IsLink);
        }
        assert_eq!(problem(files.read("lf", ..).await), PathProblem::IsLink);
        assert_eq!(problem(files.write("lf", &b"2"[..]).await), PathProblem::IsLink);
        assert_eq!(problem(files.list("l", 1).await), PathProblem::IsLink);
        let link = files.stat("l").await.unwrap();
        assert_eq!((link.kind, link.target.as_deref()), (PathKind::Link, Some("d")));
        // A file may replace a link, and a link may be moved: its target stays.
        files.rename("lf", "d/lf").await.unwrap();
        files.rename("d/f", "loop").await.unwrap();
        assert_eq!(files.read("loop", ..).await.unwrap(), b"1");
        files.remove("d/up").await.unwrap();
        assert_eq!(out(&session, "print(sorted(os.listdir('d')))").await, "['lf']\n");
        session.close();
    });
}

#[test]
fn a_listing_waits_for_the_run_that_changes_what_it_lists() {
    block_on(async {
        let session = core().await;
        let code = "import os, time\nfor n in range(900): open(f'f{n:03}', 'w').close()\n\
            for n in range(300):\n os.rename(f'f{n:03}', f'g{n:03}')\n os.remove(f'f{n + 300:03}')\n \
            os.symlink('f899', f'f{n + 300:03}')\n\
            open('done', 'w').close()";
        let running = {
            let session = session.clone();
            tokio::spawn(async move {
                session.run(Request::new(code).timeout(Duration::from_secs(30))).await.unwrap()
            })
        };
        while session.info().status != SessionStatus::Running {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let files = session.workspace();
        let (listed, written) = tokio::join!(files.list("", 1), files.write("f000", &b"mine"[..]));
        written.unwrap();
        let listed = listed.unwrap();
        let count = |kind| listed.iter().filter(|entry| entry.kind == kind).count();
        assert_eq!((count(PathKind::Link), listed.iter().any(|e| e.path == "done")), (300, true));
        assert!(running.await.unwrap().success);
        assert_eq!(out(&session, "open('f000').read()").await, "mine\n");
        session.close();
    });
}

#[test]
fn a_lost_interpreter_s_files_are_gone_with_the_change() {
    block_on(async {
        let session = core().await;
        out(&session, "open('kept', 'w').close()").await;
        let lost =
            run(&session, Request::new("open('lost', 'w').close()\nimport os; os._exit(1)")).await;
        failed(&lost, belljar::outcome::ErrorKind::Crash);
        assert_eq!(all(&session).await, ["kept"]);
        session.workspace().remove("kept").await.unwrap();
        assert!(session.read("lost").await.is_err());
        session.close();
    });
}

#[test]
fn mounts_stay_where_they_are_when_files_are_exchanged() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("m"), "mounted").unwrap();
        let options = SessionOptions::new().image("core").mount(dir.path(), "/data");
        let (one, two) = (session_on(runtime(), options).await, core().await);
        two.workspace().write("f", &b"1"[..]).await.unwrap();
        one.workspace().write("gone", &b"2"[..]).await.unwrap();
        assert!(one.workspace().replace_with(&two.workspace()).await.unwrap());
        assert!(!one.workspace().replace_with(&two.workspace()).await.unwrap());
        let seen = "import os\nprint(os.listdir(), open('/data/m').read())";
        assert_eq!(out(&one, seen).await, "['f'] mounted\n");
        one.workspace().write("g", &b"3"[..]).await.unwrap();
        assert!(two.workspace().replace_with(&one.workspace()).await.unwrap());
        let seen = "import os\nprint(sorted(os.listdir()), os.path.exists('/data'))";
        assert_eq!(out(&two, seen).await, "['f', 'g'] False\n");
        one.close();
        two.close();
    });
}

/// Files of another runtime are removed with it.
#[test]
fn files_are_exchanged_within_one_runtime() {
    block_on(async {
        let other = Runtime::builder().environment().build().unwrap();
        let theirs = session_on(&other, SessionOptions::new().image("core")).await;
        let (one, two) = (core().await, core().await);
        for session in [&theirs, &two] {
            session.workspace().write("f", &b"1"[..]).await.unwrap();
        }
        let refused = one.workspace().replace_with(&theirs.workspace()).await.unwrap_err();
        assert_eq!(refused.code(), "session.not_found", "{refused}");
        let library = "import sys\nlibrary = open(sys.path[-1], 'rb')\nprint(library.read(2))";
        assert_eq!(out(&one, library).await, "b'PK'\n");
        assert!(one.workspace().replace_with(&two.workspace()).await.unwrap());
        assert_eq!(out(&one, "print(open('f').read())").await, "1\n");
        // Open files of the library are unchanged.
        let code = "print(library.seek(0), library.read(2))";
        assert_eq!(out(&one, code).await, "0 b'PK'\n");
        for session in [one, two, theirs] {
            session.close();
        }
    });
}

/// All of them in memory, which has no room for two copies.
#[test]
fn a_thousand_forks_have_the_same_files_once() {
    block_on(async {
        let bounds = RegistryLimits::default().max_awake(2_000);
        let runtime = Runtime::builder()
            .environment()
            .temp_dir("/nowhere/at/all")
            .file_memory(52 << 20)
            .sessions(bounds)
            .build()
            .unwrap();
        let session = session_on(&runtime, SessionOptions::new().image("core")).await;
        let make = "import os
with open('large', 'wb') as file:
    for n in range(50):
        _ = file.write(bytes([n]) * (1 << 20))
def look():
    with open('large', 'rb') as file:
        print([file.read(1)[0] for n in range(50) if file.seek(n << 20) >= 0], os.stat('large').st_size)
look()";
        let expected = out(&session, make).await;
        let mut forks = Vec::new();
        for _ in 0..1_000 {
            forks.push(session.fork().await.unwrap());
        }
        for (number, fork) in forks.iter().enumerate().step_by(50) {
            let own = format!("_ = open('own', 'w').write('{number}')\nlook()");
            assert_eq!(out(fork, &own).await, expected, "{number}");
            assert_eq!(fork.read("own").await.unwrap(), number.to_string().as_bytes());
        }
        assert_eq!(
            out(&session, "look(); print(os.listdir())").await,
            format!("{expected}['large']\n")
        );
        let more = "try:
    _ = open('more', 'wb').write(bytes(4 << 20))
except OSError as error:
    print(error.errno)";
        assert_eq!(out(&session, more).await, "28\n", "memory has more room than it was given");
    });
}
