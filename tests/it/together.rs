//! Programs that combine the limits on files: bytes, names, open files and files without a name, in
//! one run and in consecutive runs of a session.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belljar::event::{OutputWatcher, Stream};
use belljar::outcome::ErrorKind;
use belljar::{Request, RequestLimits, Session, SessionOptions};

use crate::host;
use crate::support::{
    alone, check, failed, memory_taken, program, programs_in, run_on, runtime, runtime_in,
    succeeded, tokio,
};

const MIB: u64 = 1 << 20;
const QUOTA: u64 = 8 * MIB;
const FILES: u64 = 100;
/// A disk block for each file, and the directories themselves.
const SLACK: u64 = MIB;

/// The maximum size of a directory, measured whenever the program prints, which it does while it
/// holds as much as possible.
struct Peak {
    dir: PathBuf,
    bytes: AtomicU64,
    entries: AtomicU64,
    descriptors: AtomicU64,
}

impl Peak {
    fn of(dir: &Path) -> Arc<Self> {
        Arc::new(Self {
            dir: fs::canonicalize(dir).unwrap(),
            bytes: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            descriptors: AtomicU64::new(0),
        })
    }

    fn look(&self) {
        let (mut bytes, mut entries) = (0, 0);
        let mut waiting = vec![self.dir.clone()];
        while let Some(dir) = waiting.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                entries += 1;
                let Ok(meta) = entry.metadata() else { continue };
                bytes += on_disk(&meta);
                if meta.is_dir() {
                    waiting.push(entry.path());
                }
            }
        }
        let (mut nameless, mut descriptors) = (HashMap::new(), 0);
        for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
            let is_here = fs::read_link(entry.path()).is_ok_and(|link| link.starts_with(&self.dir));
            if let (true, Ok(meta)) = (is_here, fs::metadata(entry.path())) {
                descriptors += 1;
                if meta.nlink() == 0 {
                    nameless.insert(meta.ino(), on_disk(&meta));
                }
            }
        }
        bytes += nameless.values().sum::<u64>();
        self.bytes.fetch_max(bytes, Ordering::SeqCst);
        self.entries.fetch_max(entries, Ordering::SeqCst);
        self.descriptors.fetch_max(descriptors, Ordering::SeqCst);
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Checks that it was no more than a guest may have, plus the given bytes and names kept by the
    /// host.
    #[track_caller]
    fn is_bounded(&self, name: &str, (bytes, entries): (u64, u64)) {
        assert!(
            self.bytes() <= QUOTA + bytes + SLACK,
            "{name}: {} bytes on the disk",
            self.bytes()
        );
        let found = self.entries.load(Ordering::SeqCst);
        assert!(found <= FILES + entries + 8, "{name}: {found} files");
        let found = self.descriptors.load(Ordering::SeqCst);
        assert!(found <= 256 + 16, "{name}: {found} descriptors");
    }
}

impl OutputWatcher for Peak {
    fn write(&self, _: Stream, _: &[u8]) {
        self.look();
    }
}

/// Holes take no space, and the guest does not cause a file system's preallocation.
fn on_disk(meta: &fs::Metadata) -> u64 {
    (meta.blocks() * 512).min(meta.len().next_multiple_of(4096))
}

/// Bytes of the files that a program held last, as it reports.
#[track_caller]
fn held(name: &str, stdout: &str) -> u64 {
    let last = stdout.lines().last().and_then(|line| line.strip_prefix("held "));
    last.unwrap_or_else(|| panic!("{name} says {stdout:?}")).parse().unwrap()
}

fn limits() -> RequestLimits {
    RequestLimits::default().workspace(QUOTA).files(FILES).timeout(Duration::from_mins(1))
}

#[test]
fn bounds_hold_together() {
    let names = programs_in("hogs/together");
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let path = format!("hogs/together/{name}");
        let dir = tempfile::tempdir().unwrap();
        let outside = host::run(&path, dir.path(), &[]);
        let outside = held(&name, &String::from_utf8(outside.stdout).unwrap());
        assert!(outside > QUOTA, "{name} holds only {outside} bytes where nothing is bounded");

        let dir = tempfile::tempdir().unwrap();
        let peak = Peak::of(dir.path());
        let mut request = Request::new(program(&path)).image("core");
        request.limits = limits();
        let run = run_on(&runtime_in(dir.path()), request.watch(Arc::clone(&peak) as Arc<_>));
        succeeded(&run.outcome);
        let inside = held(&name, &run.outcome.stdout);
        assert!(inside <= QUOTA, "{name} holds {inside} bytes");
        peak.is_bounded(&name, (0, 0));
        assert!(
            inside >= QUOTA / 4,
            "{name} was stopped at {inside} bytes, before it could attack"
        );
    }
}

/// The same in a session, whose next runs continue with the code's state: in the same interpreter,
/// after a crash and restore, and after a suspension.
#[test]
fn bounds_hold_together_in_run_after_run() {
    for name in programs_in("hogs/together") {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime_in(dir.path());
        tokio(2).block_on(async {
            let options = SessionOptions::new().image("core").run_limits(limits());
            let session = runtime.session(options.history(4, QUOTA)).await.unwrap();
            let peak = Peak::of(dir.path());
            for turn in 0..4 {
                let request = Request::new(program(&format!("hogs/together/{name}")));
                let outcome = run(&session, request.watch(Arc::clone(&peak) as Arc<_>)).await;
                succeeded(&outcome);
                let inside = held(&name, &outcome.stdout);
                assert!(inside <= QUOTA, "{name} holds {inside} bytes in its run {turn}");
                // The state has been saved by then.
                session.history().await.unwrap();
                peak.look();
                match turn {
                    1 => failed(
                        &run(&session, Request::new("import os; os._exit(1)")).await,
                        ErrorKind::Crash,
                    ),
                    2 => assert!(session.suspend().await, "{name}"),
                    _ => {}
                }
                peak.look();
            }
            // Besides the guest's own files: the latest state, the history, the state being saved
            // and the file of a suspended session.
            peak.is_bounded(&name, (4 * QUOTA, 8 * (FILES + 256)));
            session.close();
        });
    }
}

async fn run(session: &Session, request: Request) -> belljar::Outcome {
    let outcome = session.run(request).await.unwrap();
    check(&outcome);
    outcome
}

/// Files beyond the host's memory limit are on disk, including those without a name, for each state
/// in the history.
#[test]
fn files_without_a_name_take_no_memory_of_the_host() {
    alone("together::files_without_a_name_take_no_memory_of_the_host", || {
        tokio(2).block_on(async {
            let limits =
                RequestLimits::default().workspace(700 * MIB).timeout(Duration::from_mins(1));
            let options = SessionOptions::new().image("core").run_limits(limits);
            let session = runtime().session(options.history(8, 2 << 30)).await.unwrap();
            let fill = "import os\nf = open('x', 'w+b', buffering=0); os.unlink('x')\n\
                        for _ in range(600): _ = f.write(part)";
            succeeded(&run(&session, Request::new("part = b'x' * (1 << 20)")).await);
            session.history().await.unwrap();
            let before = memory_taken();
            succeeded(&run(&session, Request::new(fill)).await);
            for n in 0..2 {
                let change = format!("os.pwrite(f.fileno(), b'{n}', 0)");
                succeeded(&run(&session, Request::new(change)).await);
            }
            let crash = run(&session, Request::new("os._exit(1)")).await;
            failed(&crash, ErrorKind::Crash);
            let look = "print(os.pread(f.fileno(), 1, 0), os.fstat(f.fileno()).st_size >> 20)";
            assert_eq!(run(&session, Request::new(look)).await.stdout, "b'1' 600\n");
            session.history().await.unwrap();
            let more = memory_taken().saturating_sub(before);
            assert!(more < 350 * MIB, "{} MiB of memory for 600 MiB of files", more / MIB);
            session.close();
        });
    });
}

/// A guest that crashes repeatedly does not get higher file numbers, for which the host would have
/// to open as many when it is restored.
#[test]
fn numbers_of_files_do_not_grow_with_every_restoration() {
    tokio(2).block_on(async {
        let options = SessionOptions::new().image("core").run_limits(limits());
        let session = runtime().session(options).await.unwrap();
        let open = "import os\nold = globals().get('held', [])\n\
                    held = [open('x', 'wb') for _ in range(100)]\n\
                    print(max(file.fileno() for file in held), len(held))";
        for _ in 0..8 {
            let outcome = run(&session, Request::new(open)).await;
            let number: u32 = outcome.stdout.split(' ').next().unwrap().parse().unwrap();
            assert!(number < 256 + 16, "{number}");
            failed(&run(&session, Request::new("os._exit(1)")).await, ErrorKind::Crash);
        }
        assert!(session.suspend().await);
        assert_eq!(run(&session, Request::new("print(len(held))")).await.stdout, "100\n");
        session.close();
    });
}
