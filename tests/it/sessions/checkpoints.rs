//! A session as a file: written at once, restored anywhere, in any state.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belljar::outcome::ErrorKind;
use belljar::session::{RegistryLimits, RestoreOptions, SessionLimits};
use belljar::{Policy, Request, RequestLimits, Runtime, Session, SessionOptions};

use super::{block_on, core, out, run, session_on};
use crate::caches::copy_of_the_shared_one;
use crate::support::{alone, chain, runtime, runtime_in};

async fn restore(runtime: &Runtime, path: &Path) -> Session {
    runtime.restore(path).await.unwrap_or_else(|e| panic!("{}", chain(&e)))
}

/// A listing of which the first names were removed, and one of a directory that is gone.
const LISTS: &str = "
import os
os.mkdir('d'); os.mkdir('e'); open('e/x', 'w').close()
for n in range(300): open(f'd/a-rather-long-name-{n}', 'w').close()
for n in range(200): os.remove(f'd/a-rather-long-name-{n}')
listing, gone = os.scandir('d'), os.scandir('e')
seen = [next(listing).name for _ in range(3)]
os.remove('e/x'); os.rmdir('e')
";
const LISTED: &str = "
print(len(seen), sorted(seen + [entry.name for entry in listing]) == sorted(os.listdir('d')))
";

#[test]
fn a_listing_under_way_goes_on() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = core().await;
        out(&session, LISTS).await;
        session.checkpoint(&path).await.unwrap();
        let restored = restore(runtime(), &path).await;
        assert_eq!(out(&restored, LISTED).await, "3 True\n");
        restored.close();
        assert!(session.suspend().await);
        assert_eq!(out(&session, LISTED).await, "3 True\n");
        session.close();
    });
}

/// State besides memory: open files in every state, a database, a generator.
const OPEN: &str = "
import sqlite3, tempfile, os
def squares():
    n = 0
    while True:
        yield n * n
        n += 1
g = squares(); next(g); next(g)
db = sqlite3.connect('data.db')
db.execute('create table t (a, b)')
db.executemany('insert into t values (?, ?)', [(n, n * n) for n in range(100)])
db.commit()
cursor = db.execute('select b from t order by a')
cursor.fetchmany(5)
r = open('lines.txt', 'w+'); r.write('one\\ntwo\\nthree\\n'); r.seek(0); r.readline()
log = open('log.txt', 'a'); log.write('first\\n'); log.flush()
gone = tempfile.TemporaryFile(); gone.write(b'nameless'); gone.seek(4)
moved = open('old.txt', 'w+'); moved.write('moved'); moved.flush(); os.rename('old.txt', 'new.txt')
os.makedirs('a/b/c'); os.symlink('../lines.txt', 'a/link')
here = os.open('a/b', os.O_RDONLY)
";
const USE: &str = "
print(next(g), cursor.fetchone()[0], r.readline().strip(), gone.read(), os.fstat(here).st_ino == os.stat('a/b').st_ino)
_ = log.write('second\\n'), log.flush(), moved.write('!'), moved.flush()
print(open('log.txt').read().split(), open('new.txt').read(), os.readlink('a/link'))
_ = db.execute('insert into t values (100, 10000)'), db.commit()
print(db.execute('select count(*), sum(b) from t').fetchone(), open('a/link').read().split())
";
const USED: &str = "4 25 two b'less' True\n['first', 'second'] moved! ../lines.txt\n\
                    (101, 338350) ['one', 'two', 'three']\n";

#[test]
fn open_files_databases_and_generators_go_on() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = core().await;
        out(&session, OPEN).await;
        session.checkpoint(&path).await.unwrap();
        assert_eq!(out(&session, USE).await, USED, "a checkpoint changes nothing");
        for _ in 0..2 {
            let restored = restore(runtime(), &path).await;
            assert_ne!(restored.id(), session.id());
            assert_eq!(restored.execution().await, 1);
            assert_eq!(out(&restored, USE).await, USED);
            restored.close();
        }
        session.rewind(1).await.unwrap();
        let fork = session.fork().await.unwrap();
        assert_eq!(out(&session, USE).await, USED, "after a rewind");
        assert_eq!(out(&fork, USE).await, USED, "in a fork");
        session.rewind(1).await.unwrap();
        assert!(session.suspend().await);
        assert_eq!(out(&session, USE).await, USED, "after a suspension");
        run(&session, Request::new("os._exit(1)")).await;
        assert_eq!(out(&session, "next(g)").await, "9\n", "after a crash");
        session.close();
        fork.close();
    });
}

#[test]
fn open_devices_go_on() {
    block_on(async {
        let open = "null, zero = open('/dev/null', 'w'), open('/dev/zero', 'rb', buffering=0)";
        let use_ = "print(null.write('x' * 10_000), null.flush(), zero.read(2))";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = core().await;
        out(&session, open).await;
        session.checkpoint(&path).await.unwrap();
        let restored = restore(runtime(), &path).await;
        assert_eq!(out(&restored, use_).await, "10000 None b'\\x00\\x00'\n");
        assert!(session.suspend().await);
        assert_eq!(out(&session, use_).await, "10000 None b'\\x00\\x00'\n");
        restored.close();
        session.close();
    });
}

#[test]
fn the_history_goes_along() {
    block_on(async {
        let session = core().await;
        for n in 1..=5 {
            out(&session, &format!("x = {n}\nopen('f', 'w').write('{n}' * 100_000)")).await;
        }
        let (mut reader, writer) = std::io::pipe().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("piped");
        let copied = path.clone();
        let copy = std::thread::spawn(move || {
            std::io::copy(&mut reader, &mut std::fs::File::create(copied).unwrap()).unwrap()
        });
        session.checkpoint_to(writer).await.unwrap();
        assert!(copy.join().unwrap() > 0);
        let restored = restore(runtime(), &path).await;
        assert_eq!(restored.history().await.unwrap(), session.history().await.unwrap());
        restored.rewind(2).await.unwrap();
        assert_eq!(out(&restored, "print(x, len(open('f').read()))").await, "2 100000\n");
        restored.rewind(0).await.unwrap();
        assert_eq!(out(&restored, "'x' in globals()").await, "False\n");
        restored.close();
        session.close();
    });
}

#[test]
fn limits_and_mounts_go_along() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("given.txt"), "mounted").unwrap();
        let path = dir.path().join("session.belljar");
        let options = SessionOptions::new()
            .image("core")
            .mount(dir.path(), "/data")
            .total_fuel(1_000_000_000)
            .policy(Policy::Custom(
                belljar::request::Rules::default()
                    .forbidden_names(vec!["eval".into()])
                    .imports(vec!["os".into()]),
            ));
        let session = session_on(runtime(), options).await;
        crate::support::succeeded(&run(&session, Request::new("import os\nx = os.sep")).await);
        session.checkpoint(&path).await.unwrap();
        session.close();
        let (error, hint) = super::told(runtime().restore(&path).await);
        assert!(
            error.ends_with(
                "is a session with /data mounted, which is not what is mounted for it now"
            )
        );
        assert!(hint.unwrap().starts_with("mount a directory at each of these"));
        let mounted = RestoreOptions::file(&path).mount(dir.path(), "/data");
        let restored = runtime().restore(mounted).await.unwrap();
        let refused = run(&restored, Request::new("eval('1')")).await;
        crate::support::failed(&refused, ErrorKind::Policy);
        let mounted = Request::new("import io\nprint(io.open('/data/given.txt').read())");
        let mounted = mounted.policy(Policy::Custom(
            belljar::request::Rules::default()
                .imports(vec!["io".into()])
                .forbidden_names(Vec::new())
                .forbidden_attributes(Vec::new()),
        ));
        assert_eq!(run(&restored, mounted).await.stdout, "mounted\n");
        let endless = run(&restored, Request::new("while True: pass")).await;
        crate::support::failed(&endless, ErrorKind::Fuel);
        restored.close();
    });
}

/// The author of a checkpoint chose its limits and its policy, unless they are replaced on
/// restoring.
#[test]
fn a_restorer_bounds_what_a_checkpoint_says() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = core().await;
        out(&session, "x = 7").await;
        session.checkpoint(&path).await.unwrap();
        session.close();
        let endless = || Request::new("while True: pass").timeout(Duration::from_secs(30));

        let free = restore(runtime(), &path).await;
        assert_eq!(out(&free, "eval('x')").await, "7\n", "nobody gives other limits");
        free.close();

        let limits = SessionLimits::default().fuel(1_000_000_000);
        let bounded = RestoreOptions::file(&path).limits(limits).policy(Policy::Strict);
        let bounded = runtime().restore(bounded).await.unwrap();
        crate::support::failed(&run(&bounded, Request::new("eval('x')")).await, ErrorKind::Policy);
        crate::support::failed(&run(&bounded, endless()).await, ErrorKind::Fuel);
        // A limit in the checkpoint is not raised.
        bounded.checkpoint(&path).await.unwrap();
        bounded.close();
        let limits = SessionLimits::default().fuel(u64::MAX / 8).lifetime(Duration::ZERO);
        let wider = runtime().restore(RestoreOptions::file(&path).limits(limits)).await.unwrap();
        let ended = run(&wider, Request::new("x")).await;
        assert!(
            !ended.success && ended.error.unwrap().contains("lifetime"),
            "its lifetime is over"
        );
        wider.close();
        let limits = SessionLimits::default().fuel(u64::MAX / 8);
        let wider = runtime().restore(RestoreOptions::file(&path).limits(limits)).await.unwrap();
        crate::support::failed(&run(&wider, Request::new("x")).await, ErrorKind::Fuel);
        wider.close();
    });
}

/// The code of many runs exceeded the manifest, and then nothing of the session was written.
#[test]
fn a_session_of_many_long_runs_is_written_and_goes_on() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session =
            session_on(runtime(), SessionOptions::new().image("core").history(10_000, 1 << 30));
        let session = session.await;
        // In JSON each of these characters takes six bytes.
        let comment = "\u{1}".repeat(64 << 10);
        for n in 0..175 {
            out(&session, &format!("x = {n} #{comment}")).await;
        }
        let kept = session.history().await.unwrap();
        assert!((10..175).contains(&kept.len()), "{}", kept.len());
        assert!(session.suspend().await);
        session.checkpoint(&path).await.unwrap();
        let restored = restore(runtime(), &path).await;
        assert_eq!(restored.history().await.unwrap(), kept);
        assert_eq!(out(&restored, "x").await, "174\n");
        restored.rewind(kept[0].execution).await.unwrap();
        assert_eq!(out(&restored, "x + 1").await, format!("{}\n", kept[0].execution));
        session.close();
        restored.close();
    });
}

/// Options that would not fit into a checkpoint are rejected when the session is created.
#[test]
fn settings_that_no_checkpoint_holds_are_refused() {
    block_on(async {
        let words = vec!["word".repeat(100); 4_000];
        let policy = Policy::Custom(belljar::request::Rules::default().forbidden_names(words));
        let options = SessionOptions::new().image("core").policy(policy);
        let (error, _) = super::told(runtime().session(options).await);
        assert!(error.contains("policy: "), "{error}");
    });
}

#[test]
fn a_session_is_restored_from_a_reader_under_its_old_id() {
    block_on(async {
        let session = core().await;
        out(&session, "x = 7").await;
        let old = session.id().to_owned();
        let file = tempfile::NamedTempFile::new().unwrap();
        session.checkpoint_to(file.reopen().unwrap()).await.unwrap();
        let again = || RestoreOptions::reader(file.reopen().unwrap()).id(&old);
        let (error, _) = super::told(runtime().restore(again()).await);
        assert_eq!(error, format!("session {old} already exists"));
        session.close();
        let restored = runtime().restore(again().client("Ada")).await.unwrap();
        assert_eq!(restored.id(), old);
        assert_eq!(out(&restored, "x").await, "7\n");
        // A handle to the previous session with the id does not affect the new one.
        session.close();
        let sessions = runtime().sessions();
        assert_eq!(sessions.get(&old).unwrap().id(), old);
        let options = SessionOptions::new();
        assert_eq!(sessions.for_client("Ada", options).await.unwrap().id(), old);
        restored.close();
        assert!(sessions.get(&old).is_err());
        for id in ["", "a b", "../x", &"x".repeat(65)] {
            let options = RestoreOptions::reader(file.reopen().unwrap()).id(id);
            let error = runtime().restore(options).await.err().unwrap();
            assert_eq!(error.code(), "session.id", "{id:?}");
        }
    });
}

#[test]
fn no_more_is_read_than_a_session_may_have() {
    block_on(async {
        let bounds = RegistryLimits::default().restored(1 << 20);
        let small = Runtime::builder().environment().sessions(bounds).build().unwrap();
        let error = small.restore(RestoreOptions::reader(std::io::repeat(0))).await.err().unwrap();
        assert_eq!(error.code(), "session.format", "{error}");
        let broken = RestoreOptions::reader(&b"belljar"[..]);
        let error = small.restore(broken).await.err().unwrap();
        assert_eq!(error.to_string(), "(a reader) is not a usable checkpoint: it ends too early");
    });
}

#[test]
fn a_session_moves_between_two_caches() {
    block_on(async {
        let other_cache = copy_of_the_shared_one();
        // It bakes its images itself.
        std::fs::remove_dir_all(other_cache.path().join("images")).unwrap();
        let there = Runtime::builder().environment().cache(other_cache.path()).build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = session_on(runtime(), SessionOptions::new().image("data")).await;
        out(&session, "import pandas as pd\ndf = pd.DataFrame({'a': range(1000)})").await;
        session.checkpoint(&path).await.unwrap();
        session.close();
        let moved = restore(&there, &path).await;
        assert_eq!(out(&moved, "int(df.a.sum())").await, "499500\n");
        moved.checkpoint(&path).await.unwrap();
        moved.close();
        let back = restore(runtime(), &path).await;
        assert_eq!(out(&back, "len(df)").await, "1000\n");
        back.close();
    });
}

#[test]
fn another_process_goes_on() {
    const NAME: &str = "sessions::checkpoints::another_process_goes_on";
    const PATH: &str = "BELLJAR_TEST_CHECKPOINT";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session.belljar");
    if let Some(path) = std::env::var_os(PATH) {
        // The other process.
        return block_on(async {
            let path = Path::new(&path);
            let session = restore(runtime(), path).await;
            assert_eq!(out(&session, "next(g)").await, "4\n");
            session.checkpoint(path).await.unwrap();
        });
    }
    block_on(async {
        let session = core().await;
        out(&session, "g = (n * n for n in range(10))\nnext(g), next(g)").await;
        session.checkpoint(&path).await.unwrap();
        session.close();
    });
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(PATH, &path)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    block_on(async {
        let session = restore(runtime(), &path).await;
        assert_eq!(session.execution().await, 2);
        assert_eq!(out(&session, "next(g)").await, "9\n");
        session.close();
    });
}

/// A process that writes checkpoints in a loop is killed at any time: the file is always complete,
/// and never older than the last finished one.
#[test]
fn a_killed_process_leaves_the_checkpoint_before() {
    const NAME: &str = "sessions::checkpoints::a_killed_process_leaves_the_checkpoint_before";
    const PATH: &str = "BELLJAR_TEST_CHECKPOINT_LOOP";
    if let Some(path) = std::env::var_os(PATH) {
        return block_on(async {
            let session = core().await;
            for n in 0.. {
                let step = format!("import os\nx = {n}\npad = os.urandom(4 << 20)");
                session.run(Request::new(step)).await.unwrap();
                session.checkpoint(Path::new(&path)).await.unwrap();
                println!("finished {n}");
            }
        });
    }
    runtime().images().prepare("core").unwrap();
    for round in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(PATH, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let patience = Instant::now() + Duration::from_mins(1);
        while !path.exists() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(23 * round + 10));
        child.kill().unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        child.wait().unwrap();
        let mut finished =
            said.lines().filter_map(|line| line.strip_prefix("finished ")?.parse().ok());
        let last: u64 = finished.next_back().unwrap_or(0);
        block_on(async {
            let session = restore(runtime(), &path).await;
            let found: u64 = out(&session, "x").await.trim().parse().unwrap();
            assert!(found >= last, "{found} after {last} was finished");
            session.close();
        });
    }
}

/// Numbers with gaps, several names of one file, files without a name, and a hole of a GiB.
const NUMBERED: &str = "
import os
os.makedirs('d/e')
for n in range(5):
    with open(f'd/{n}', 'w') as file: file.write(str(n))
os.remove('d/1'); os.link('d/2', 'd/two'); os.symlink('2', 'd/l'); os.rename('d/0', 'moved')
gone = [open(f'gone{n}', 'w+') for n in range(3)]
for n in (2, 0, 1): os.remove(f'gone{n}')
with open('holes', 'wb') as file:
    for at, text in [(1 << 29, b'middle'), (1 << 30, b'end')]:
        file.seek(at); file.write(text)
    file.truncate((1 << 30) + (1 << 28))
def look():
    paths = ['.', '/tmp', '/', '/dev/null', 'moved', 'holes']
    paths += ['d/' + name for name in ['', 'e', '2', '3', '4', 'two', 'l']]
    with open('new', 'w') as file:
        new = os.fstat(file.fileno()).st_ino
    os.remove('new')
    found = []
    with open('holes', 'rb') as file:
        for at in [0, (1 << 29) - 1, (1 << 30) - 1, (1 << 30) + 5]:
            file.seek(at); found.append(file.read(7))
    print([os.lstat(path).st_ino for path in paths], [os.fstat(f.fileno()).st_ino for f in gone],
          new, [entry.inode() for entry in os.scandir('d')], os.stat('holes').st_size, found)
";

#[test]
fn a_hole_stays_a_hole_and_files_keep_their_numbers() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        // Files have only memory, 256 MiB.
        let runtime = Runtime::builder().environment().temp_dir("/nowhere/at/all").build().unwrap();
        let mut limits = RequestLimits::default();
        limits.workspace = Some(2 << 30);
        let options = SessionOptions::new().image("core").run_limits(limits);
        let session = session_on(&runtime, options).await;
        out(&session, NUMBERED).await;
        session.checkpoint(&path).await.unwrap();
        let size = std::fs::metadata(&path).unwrap().len();
        assert!(size < 8 << 20, "{size} bytes");
        let restored = restore(&runtime, &path).await;
        assert!(restored.suspend().await);
        let looked = out(&session, "look()").await;
        assert!(looked.contains("b'\\x00middle'") && looked.contains("1342177280"), "{looked}");
        assert_eq!(out(&restored, "look()").await, looked);
        // Numbers are unique, also for files created later.
        session.rewind(1).await.unwrap();
        assert_eq!(out(&session, "look()").await, looked);
    });
}

#[test]
fn sessions_leave_nothing_behind() {
    alone("sessions::checkpoints::sessions_leave_nothing_behind", || {
        let dir = tempfile::tempdir().unwrap();
        let count = |path: &Path| std::fs::read_dir(path).unwrap().count();
        let runtime = runtime_in(dir.path());
        let cycle = |runtime: &Runtime| {
            block_on(async {
                for n in 0..40 {
                    let session = session_on(runtime, SessionOptions::new().image("core")).await;
                    out(&session, "x = bytearray(1 << 20)\nopen('f', 'wb').write(b'x' * 200_000)")
                        .await;
                    let fork = session.fork().await.unwrap();
                    out(&fork, "open('g', 'w').write('y')").await;
                    match n % 4 {
                        0 => assert!(session.suspend().await),
                        1 => drop(run(&session, Request::new("import os\nos._exit(1)")).await),
                        2 => session.rewind(0).await.unwrap(),
                        _ => {}
                    }
                    session.close();
                    fork.close();
                }
            });
        };
        cycle(&runtime);
        let (descriptors, memory) =
            (count(Path::new("/proc/self/fd")), crate::support::memory_taken());
        cycle(&runtime);
        let back = crate::support::comes_to(|| {
            count(Path::new("/proc/self/fd")) <= descriptors + 2
                && crate::support::memory_taken() <= memory + (24 << 20)
        });
        assert!(back, "{} bytes before, {} now", memory, crate::support::memory_taken());
        drop(runtime);
        assert!(crate::support::comes_to(|| count(dir.path()) == 0));
    });
}
