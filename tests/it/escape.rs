//! Escapes: the host's files, environment, network and processes. Every attack is first tried on
//! the host's own Python, where it succeeds.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use belljar::request::Threads;
use belljar::{Outcome, Request};

use crate::host;
use crate::support::{program, run, run_on, runtime_in, succeeded};

const SECRET: &str = "what nobody may read";

/// A directory with a secret, and a working directory below it.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("secret.txt"), SECRET).unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn secret(&self) -> PathBuf {
        self.path().join("secret.txt")
    }

    /// The existing entries, by name.
    fn entries(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Checks that nothing has changed.
    #[track_caller]
    fn is_untouched(&self) {
        assert_eq!(self.entries(), ["secret.txt", "work"]);
        assert_eq!(fs::read_to_string(self.secret()).unwrap(), SECRET);
        let modified = fs::metadata(self.secret()).unwrap().modified().unwrap();
        assert!(modified.elapsed().unwrap() < Duration::from_mins(10), "its times were changed");
    }
}

/// The result of each attack: reached or refused.
fn report(stdout: &str) -> BTreeMap<&str, bool> {
    let lines = stdout.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(name, rest)| (name, rest.starts_with("reached"))).collect()
}

/// Tries a program's attacks on the host, where all of them must succeed.
#[track_caller]
fn reaches_on_the_host(name: &str, args: &[&str]) -> Vec<String> {
    let place = Place::new();
    let secret = place.secret();
    let args = if args.is_empty() {
        vec![secret.to_str().unwrap()]
    } else {
        args.to_vec()
    };
    let output = host::run(&format!("escape/{name}"), &place.path().join("work"), &args);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let report = report(&stdout);
    assert!(!report.is_empty(), "{name}: {stderr}");
    for (attack, reached) in &report {
        assert!(reached, "{name}: {attack} is no attack on the host:\n{stdout}{stderr}");
    }
    report.into_keys().map(str::to_owned).collect()
}

/// The request with the same attacks in a sandbox.
fn attack(name: &str, args: &[&str]) -> Request {
    let request = Request::new(program(&format!("escape/{name}")))
        .file("attempts.py", program("attempts"))
        .timeout(Duration::from_secs(30))
        .image("core");
    args.iter().fold(request, |request, arg| request.arg(*arg))
}

/// Checks that each attack was tried and failed.
#[track_caller]
fn refused(outcome: &Outcome, attacks: &[String]) {
    succeeded(outcome);
    let report = report(&outcome.stdout);
    let tried: Vec<&str> = report.keys().copied().collect();
    assert_eq!(tried, attacks, "not every attack was tried: {outcome:#?}");
    let reached: Vec<_> = report.iter().filter(|(_, reached)| **reached).collect();
    assert!(reached.is_empty(), "{reached:?}\n{}", outcome.stdout);
}

/// Tries the attacks of a program against a secret next to the workspaces.
#[track_caller]
fn cannot(name: &str) {
    let attacks = reaches_on_the_host(name, &[]);
    let place = Place::new();
    let run = run_on(&runtime_in(place.path()), attack(name, &[place.secret().to_str().unwrap()]));
    refused(&run.outcome, &attacks);
    assert!(!run.outcome.stdout.contains(SECRET));
    for file in run.outcome.files.iter().filter(|f| f.symlink.is_none()) {
        let bytes = run.read(&file.path).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(SECRET), "{file:?} holds the secret");
    }
    drop(run);
    place.is_untouched();
}

#[test]
fn reading_what_is_outside() {
    cannot("reading");
}

#[test]
fn links_to_what_is_outside() {
    cannot("links");
}

#[test]
fn writing_what_is_outside() {
    cannot("writing");
}

#[test]
fn processes_and_threads() {
    let attacks = reaches_on_the_host("processes", &["-"]);
    refused(&run(attack("processes", &["-"]).threads(Threads::Refuse)).outcome, &attacks);
}

#[test]
fn the_hosts_environment() {
    let attacks = reaches_on_the_host("environment", &["-"]);
    refused(&run(attack("environment", &["-"])).outcome, &attacks);

    let code = "import json, os\nprint(json.dumps(dict(os.environ)))";
    let outcome = run(Request::new(code).env("MINE", "given")).outcome;
    let seen: BTreeMap<String, String> = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(seen.get("MINE").map(String::as_str), Some("given"));
    // The language is the same everywhere, and not secret.
    let telling = std::env::vars().filter(|(name, value)| value.len() > 4 && name != "LANG");
    for (name, value) in telling.filter(|(name, _)| !name.starts_with("LC_")) {
        assert!(seen.get(&name) != Some(&value), "{name} of the host is seen: {value}");
    }
}

/// Servers on this machine that count connections.
struct Servers {
    tcp: u16,
    udp: u16,
    visits: Arc<AtomicUsize>,
}

impl Servers {
    fn start() -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let visits = Arc::new(AtomicUsize::new(0));
        let servers = Self {
            tcp: tcp.local_addr().unwrap().port(),
            udp: udp.local_addr().unwrap().port(),
            visits: Arc::clone(&visits),
        };
        let counter = Arc::clone(&visits);
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                visits.fetch_add(1, Ordering::Relaxed);
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            }
        });
        std::thread::spawn(move || {
            while udp.recv(&mut [0; 64]).is_ok() {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        servers
    }

    fn visits(&self) -> usize {
        // Packets on their way get a moment to arrive.
        std::thread::sleep(Duration::from_millis(100));
        self.visits.load(Ordering::Relaxed)
    }
}

#[test]
fn the_network() {
    let servers = Servers::start();
    let ports = [servers.tcp.to_string(), servers.udp.to_string()];
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let attacks = reaches_on_the_host("network", &ports);
    let before = servers.visits();
    assert!(before >= 5, "only {before} visits from the host");
    refused(&run(attack("network", &ports)).outcome, &attacks);
    assert_eq!(servers.visits(), before, "somebody came out of the sandbox");
}

#[test]
fn temporary_files_are_the_runs_own() {
    let name = format!("belljar-marker-{}", std::process::id());
    let code = format!(
        "import os, tempfile\nopen('/tmp/{name}', 'w').write('mine')\n\
         print(os.listdir('/tmp') == ['{name}'], tempfile.gettempdir())"
    );
    let outcome = run(Request::new(&code)).outcome;
    assert_eq!(outcome.stdout, "True /tmp\n", "{outcome:#?}");
    assert!(outcome.files.is_empty(), "a temporary file is no artifact: {:?}", outcome.files);
    assert!(!Path::new("/tmp").join(&name).exists());
    assert_eq!(run(Request::new(&code)).outcome.stdout, "True /tmp\n");
}

#[test]
fn a_mount_is_read_only() {
    let place = Place::new();
    fs::create_dir(place.path().join("work/below")).unwrap();
    fs::write(place.path().join("work/data.txt"), "data").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../secret.txt", place.path().join("work/link")).unwrap();
    let code = "
import os
from attempts import attempt, read

os.chdir('/data')
print(read('/data/data.txt'), sorted(os.listdir('/data')))
attempt('write', lambda: open('/data/data.txt', 'w'))
attempt('append', lambda: open('/data/data.txt', 'a'))
attempt('update', lambda: open('/data/data.txt', 'r+'))
attempt('create', lambda: open('/data/new.txt', 'w'))
attempt('create below', lambda: open('below/new.txt', 'w'))
attempt('remove', lambda: os.unlink('/data/data.txt') or True)
attempt('rename', lambda: os.rename('/data/data.txt', '/data/x') or True)
attempt('move away', lambda: os.rename('/data/data.txt', '/workspace/x') or True)
attempt('move in', lambda: os.rename('/workspace/attempts.py', '/data/x') or True)
attempt('directory', lambda: os.mkdir('/data/d') or True)
attempt('remove directory', lambda: os.rmdir('/data/below') or True)
attempt('truncate', lambda: os.truncate('/data/data.txt', 0) or True)
attempt('touch', lambda: os.utime('/data/data.txt', (0, 0)) or True)
attempt('link', lambda: os.symlink('data.txt', '/data/l') or True)
attempt('hard link', lambda: os.link('/data/data.txt', '/data/h') or True)
attempt('hard link out', lambda: os.link('/data/data.txt', '/workspace/h') or True)
attempt('link out', lambda: read('/data/link'))
attempt('parent', lambda: read('/data/../secret.txt'))
attempt('drive', lambda: os.listdir('/data/below/C:'))
attempt('backslashes', lambda: read(r'/data/below\\..\\..\\secret.txt'))
";
    let work = place.path().join("work");
    let request = Request::new(code).file("attempts.py", program("attempts")).mount(&work, "/data");
    let outcome = run(request).outcome;
    let (first, attempts) = outcome.stdout.split_once('\n').unwrap_or_default();
    let link = if cfg!(unix) { ", 'link'" } else { "" };
    assert_eq!(first, format!("b'data' ['below', 'data.txt'{link}]"), "{outcome:#?}");
    let report = report(attempts);
    assert_eq!(report.len(), 20, "{outcome:#?}");
    assert!(report.values().all(|reached| !reached), "{report:#?}");
    place.is_untouched();
    assert_eq!(fs::read_to_string(work.join("data.txt")).unwrap(), "data");
    assert_eq!(fs::read_dir(&work).unwrap().count(), if cfg!(unix) { 3 } else { 2 });
}

/// The guest's file system has no modes and owners, so changing them has no effect.
#[test]
fn a_mounts_modes_and_times_stay_as_they_are() {
    let place = Place::new();
    let before = fs::metadata(place.secret()).unwrap();
    let code = "import os\nfor change in (lambda p: os.chmod(p, 0o777), lambda p: os.utime(p, (0, 0))):\n    \
                try:\n        change('/data/secret.txt')\n    except OSError:\n        pass";
    succeeded(&run(Request::new(code).mount(place.path(), "/data")).outcome);
    let after = fs::metadata(place.secret()).unwrap();
    assert_eq!(after.permissions(), before.permissions());
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
}

/// The name of this machine is not revealed.
#[test]
fn the_hosts_name() {
    let code = "import os, platform, socket\n\
                print([platform.node(), socket.gethostname(), os.uname().nodename])";
    // On the host there is a name, and the code finds it.
    let outside = host::python().args(["-c", code]).output().unwrap();
    let outside = String::from_utf8(outside.stdout).unwrap();
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(!name.trim().is_empty() && outside.contains(name.trim()), "{name:?} {outside}");
    let outcome = run(Request::new(code)).outcome;
    assert_eq!(outcome.stdout, "['(none)', '(none)', '(none)']\n", "{outcome:#?}");
}

#[test]
fn runs_do_not_see_each_other() {
    let place = Place::new();
    let runtime = runtime_in(place.path());
    let first = run_on(&runtime, Request::new("open('mine.txt', 'w').write('x')"));
    let look = "
import os
found = []
for top in ('/', '/workspace', '/tmp', '..', '../..', '/workspace/..', '/tmp/..'):
    for directory, _, files in os.walk(top):
        found += [name for name in files if name == 'mine.txt']
print(found)
";
    let second = run_on(&runtime, Request::new(look));
    assert_eq!(second.outcome.stdout, "[]\n", "{:#?}", second.outcome);
    assert_eq!(first.read("mine.txt").unwrap(), b"x");
}

/// No answer to the code contains a path of the host.
#[test]
fn nothing_tells_where_the_host_keeps_things() {
    let place = Place::new();
    let code = "
import os, sys, sysconfig, site, tempfile, platform
print(os.getcwd(), sys.path, sys.prefix, sys.executable, sys.argv, sys.version, os.environ)
print(tempfile.gettempdir(), os.path.realpath('.'), os.path.abspath('.'), __file__ if '__file__' in globals() else '')
print(platform.platform(), platform.node(), sysconfig.get_paths())
for name, module in sorted(sys.modules.items()):
    print(getattr(module, '__file__', ''), getattr(module, '__cached__', ''))
";
    let outcome = run_on(&runtime_in(place.path()), Request::new(code)).outcome;
    let mut hidden = vec![place.path().to_str().unwrap().to_owned(), "belljar-".to_owned()];
    hidden.extend(std::env::var("HOME"));
    hidden.extend(std::env::var("CARGO_MANIFEST_DIR"));
    for path in hidden.iter().filter(|path| path.len() > 1) {
        assert!(!outcome.stdout.contains(path), "{path} is seen:\n{}", outcome.stdout);
    }
}
