//! While guests run, no path of the host is opened or read, except below mounts. Guests run even if
//! no file can be written.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use belljar::blocking::{self, Session};
use belljar::bundle::{BundleOptions, Processor};
use belljar::session::RestoreOptions;
use belljar::{Error, Outcome, Request, Run, Runtime, SessionOptions};

use crate::caches::{copy_of_the_shared_one, shared};
use crate::filter::{CHANGES, Call, LOOKS, note, noted, refuse};
use crate::images::wheel;
use crate::support::{alone, apart, chain};

const FILES: &str = "
import os, shutil, sqlite3, tempfile, zipfile
os.makedirs('a/b')
for n in range(5):
    with open(f'a/b/{n}.txt', 'w') as file:
        file.write(str(n) * 1000)
shutil.move('a/b', 'c')
os.symlink('../c/1.txt', 'a/link')
print(len(open('a/link').read()), sorted(os.listdir('c')))
with zipfile.ZipFile('z.zip', 'w') as archive:
    archive.write('c/2.txt')
with tempfile.TemporaryFile() as file:
    file.write(b'1' * 100_000)
db = sqlite3.connect('t.db')
db.execute('create table t(x)')
db.commit()
for path in ['/etc/passwd', '/proc/self/maps', '../../etc/passwd', '/usr/local/lib/../../etc']:
    assert not os.path.exists(path), path
print(os.listdir('/usr/local/lib'))
";
const IMPORTS: &str = "
import importlib, sys
for name in ['wave', 'colorsys', 'plistlib', 'mailbox', 'xmlrpc.client', 'email.mime.text']:
    importlib.import_module(name)
print('colorsys' in sys.modules)
";
const PLOT: &str = "
import matplotlib.pyplot as plt
plt.style.use('ggplot')
plt.title('tea', family='STIXGeneral')
plt.plot([1, 2, 3])
plt.show()
";

const PACKAGES: &str = "
import os, sys
import rope, rope.knots
print(rope.LENGTH, rope.knots.__file__, sorted(os.listdir('/packages/rope')))
print(os.path.exists('/packages/../etc/passwd'), os.listdir('/packages/..') == os.listdir('/'))
for change in [lambda: open('/packages/new', 'w'), lambda: os.remove(rope.__file__)]:
    try:
        change()
    except PermissionError:
        print('refused')
";
/// Prints how often it ran.
const SESSION: &str = "
import os
n = globals().get('n', 0) + 1
with open('log.txt', 'a') as file:
    file.write(f'{n}\\n')
if n == 1:
    kept = open('log.txt')
    data = bytes(range(256)) * 4096
print(n, len(open('log.txt').readlines()), kept.readline() if n == 1 else kept.closed, data[:2])
";

fn run(runtime: &blocking::Runtime, request: Request) -> Result<Outcome, Error> {
    runtime.run(request).map(|Run { outcome, .. }| outcome)
}

fn prints(runtime: &blocking::Runtime, request: Request, expected: &str) {
    let outcome = run(runtime, request).unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert_eq!(outcome.stdout, expected, "{outcome:#?}");
}

fn session_prints(session: &Session, expected: &str) {
    let outcome = session.run(Request::new(SESSION)).unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert_eq!(outcome.stdout, expected, "{outcome:#?}");
}

fn run_all(runtime: &blocking::Runtime, round: usize) {
    let expected = "1000 ['0.txt', '1.txt', '2.txt', '3.txt', '4.txt']\n['python315.zip']\n";
    prints(runtime, Request::new(FILES), expected);
    prints(runtime, Request::new(IMPORTS), "True\n");
    see_packages(runtime);
    if round.is_multiple_of(25) {
        let outcome = run(runtime, Request::new(PLOT)).unwrap();
        assert_eq!(outcome.plots.len(), 1, "{round}: {outcome:#?}");
    }
    if round.is_multiple_of(5) {
        for image in ["core", "tied"] {
            keep_sessions(runtime, image);
        }
    }
}

fn see_packages(runtime: &blocking::Runtime) {
    let expected = "21 /packages/rope/knots.py ['__init__.py', '__pycache__', 'knots.py']\nFalse True\nrefused\nrefused\n";
    prints(runtime, Request::new(PACKAGES).image("tied"), expected);
}

/// Runs a session, forks it, rewinds it, suspends and resumes both.
fn keep_sessions(runtime: &blocking::Runtime, image: &str) {
    let session = runtime.session(SessionOptions::new().image(image)).unwrap();
    session_prints(&session, "1 1 1\n b'\\x00\\x01'\n");
    session_prints(&session, "2 2 False b'\\x00\\x01'\n");
    let fork = session.fork().unwrap();
    session_prints(&fork, "3 3 False b'\\x00\\x01'\n");
    session.rewind(1).unwrap();
    for _ in 0..2 {
        assert!(session.suspend().unwrap() && fork.suspend().unwrap());
    }
    session_prints(&session, "2 2 False b'\\x00\\x01'\n");
    session_prints(&fork, "4 4 False b'\\x00\\x01'\n");
    fork.rewind(2).unwrap();
    session_prints(&fork, "3 3 False b'\\x00\\x01'\n");
    session.close();
    fork.close();
}

#[test]
fn runs_and_sessions_take_no_path_of_the_host() {
    let index = std::env::temp_dir().join(format!("belljar-test-ropes-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &index);
    apart("pathless::runs_and_sessions_take_no_path_of_the_host", &mut command, || {
        let index = PathBuf::from(std::env::var_os("PIP_FIND_LINKS").unwrap());
        fs::create_dir(&index).unwrap();
        let more = [("rope/knots.py", "bowline = 1\n")];
        wheel(&index, ("rope", "0.3"), "LENGTH = 21\n", &more);
        let cache = copy_of_the_shared_one();
        let runtime = with_packages(cache.path());
        fs::remove_dir_all(index).unwrap();
        let bundle = cache.path().join("bundle");
        let options = BundleOptions::new(["core", "tied"]).processor(Processor::ThisMachine);
        Runtime::builder()
            .environment()
            .cache(cache.path())
            .make_bundle(&options, &bundle)
            .unwrap();
        let bundled = Runtime::builder().environment().bundle(bundle).build().unwrap();
        take_no_path(&runtime.blocking(), &bundled.blocking());
        // From now on this process cannot remove files.
        let _ = cache.keep();
    });
}

/// A runtime with an image that has packages.
fn with_packages(cache: &Path) -> Runtime {
    let runtime = Runtime::builder().environment().cache(cache).build().unwrap();
    let mut recipe = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let text = "name = \"tied\"\nbase = \"core\"\npackages = [\"rope==0.3\"]\n";
    recipe.write_all(text.as_bytes()).unwrap();
    runtime.images().build(recipe.path()).unwrap_or_else(|e| panic!("{}", chain(&e)));
    let _ = fs::remove_file(recipe.path().with_extension("lock"));
    runtime
}

fn take_no_path(runtime: &blocking::Runtime, bundled: &blocking::Runtime) {
    let runs = std::env::var("BELLJAR_TEST_PATHLESS_RUNS");
    let runs: usize = runs.map_or(500, |runs| runs.parse().unwrap());
    let mounted = tempfile::tempdir().unwrap();
    fs::write(mounted.path().join("x"), "mounted").unwrap();
    let mount = || Request::new("print(open('/data/x').read())").mount(mounted.path(), "/data");
    prints(runtime, mount(), "mounted\n");
    run_all(runtime, 0);
    see_packages(bundled);
    note(&[CHANGES, LOOKS].concat());
    for round in 0..runs.div_ceil(3) {
        run_all(runtime, round);
        see_packages(bundled);
        let (calls, number) = noted();
        assert_eq!(calls, 0, "round {round}: the system call {number} took a path");
    }
    // Such calls would have been recorded.
    assert!(fs::read(mounted.path().join("x")).is_err());
    assert!(fs::metadata(mounted.path()).is_err());
    assert!(fs::create_dir(mounted.path().join("y")).is_err());
    assert_eq!(noted().0, 3);
    assert!(run(runtime, mount()).is_err(), "mounts are served without a path");
    assert!(noted().0 > 0);
    let _ = mounted.keep();
}

/// The target of a checkpoint.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Makes every call fail that would write or create a file.
fn write_nowhere() {
    const WRITES: i32 = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    let opens = [
        #[cfg(target_arch = "x86_64")]
        Call::with(libc::SYS_open, 1, WRITES),
        Call::with(libc::SYS_openat, 2, WRITES),
    ];
    refuse(&[CHANGES, &opens].concat());
    for place in [std::env::temp_dir(), "/dev/shm".into(), "/var/tmp".into(), ".".into()] {
        assert!(tempfile::tempfile_in(&place).is_err(), "{}", place.display());
        assert!(fs::create_dir(place.join("belljar-test-new")).is_err());
    }
}

#[test]
fn a_machine_on_which_nothing_can_be_written_runs_and_keeps_sessions() {
    let name = "pathless::a_machine_on_which_nothing_can_be_written_runs_and_keeps_sessions";
    alone(name, || {
        let cache = shared();
        write_nowhere();
        let memory = 8 << 20;
        let runtime = Runtime::builder().environment().cache(cache).file_memory(memory).build();
        let runtime = runtime.unwrap_or_else(|e| panic!("{}", chain(&e))).blocking();
        let files = FILES.replace("'/usr/local/lib'", "'/usr/local'");
        let expected = "1000 ['0.txt', '1.txt', '2.txt', '3.txt', '4.txt']\n['lib']\n";
        prints(&runtime, Request::new(files), expected);
        for _ in 0..3 {
            keep_sessions(&runtime, "core");
        }
        // A checkpoint can be read from a reader, too.
        let session = runtime.session(SessionOptions::new().image("core")).unwrap();
        session_prints(&session, "1 1 1\n b'\\x00\\x01'\n");
        let bytes = Bytes::default();
        session.checkpoint_to(bytes.clone()).unwrap();
        let bytes = std::mem::take(&mut *bytes.0.lock().unwrap());
        let restored =
            runtime.restore(RestoreOptions::reader(std::io::Cursor::new(bytes))).unwrap();
        session_prints(&restored, "2 2 False b'\\x00\\x01'\n");

        // Memory is the only storage, and a write that does not fit changes nothing.
        let fill = "import errno
try:
    with open('large', 'wb') as file:
        for _ in range(20):
            _ = file.write(os.urandom(1 << 20))
except OSError as error:
    print(errno.errorcode[error.errno])";
        assert_eq!(session.run(Request::new(fill)).unwrap().stdout, "ENOSPC\n");
        assert!(!session.suspend().unwrap(), "it was put away where no room is");
        session_prints(&session, "2 2 False b'\\x00\\x01'\n");
        session.run(Request::new("os.remove('large')")).unwrap();
        session.rewind(1).unwrap();
        assert!(session.suspend().unwrap());
        session_prints(&session, "2 2 False b'\\x00\\x01'\n");
    });
}

/// A cache of an earlier version is upgraded; if that fails, the error says so.
#[test]
fn an_earlier_cache_that_cannot_be_written_is_refused_by_name() {
    let name = "pathless::an_earlier_cache_that_cannot_be_written_is_refused_by_name";
    alone(name, || {
        let cache = copy_of_the_shared_one();
        crate::cache::as_earlier_versions_left_it(cache.path());
        write_nowhere();
        let error = Runtime::builder()
            .environment()
            .cache(cache.path())
            .build()
            .err()
            .expect("it was built");
        let text = chain(&error);
        assert!(text.contains("what an earlier version of belljar left in"), "{text}");
        assert!(text.contains(&*cache.path().to_string_lossy()), "{text}");
        assert!(error.hint().unwrap().contains("BELLJAR_CACHE"), "{:?}", error.hint());
        let _ = cache.keep();
    });
}
