//! Reads of a suspended session, and writes of a session that was suspended before.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use belljar::Session;
use belljar::session::RestoreOptions;
use belljar::store::{Condition, MemoryStore, Store};

use super::{block_on, core, out};
use crate::support::{chain, runtime};

const LOOK: &str = "print(n, len(x), x[0] == x0, os.path.getsize('f'))";

/// Random bytes that exist once, replacing the previous ones: enough that some chunk consists of
/// nothing else.
const FILL: &str = "
import os
if 'x' not in globals():
    x = bytearray(4 << 20)
with open('/dev/urandom', 'rb', buffering=0) as source:
    view = memoryview(x)
    while view:
        view = view[source.readinto(view) :]
x0 = x[0]
";

/// Another run, after which much of the memory and a file are new.
async fn more(session: &Session, n: usize) {
    let file = format!("n = {n}\nopen('f', 'wb').write(os.urandom(70_000 + n))");
    out(session, &format!("{FILL}{file}")).await;
}

async fn is_after(session: &Session, n: usize) {
    assert_eq!(out(session, LOOK).await, format!("{n} 4194304 True {}\n", 70_000 + n));
}

/// Inspects the unnamed file of suspended sessions, which only Linux can find.
#[cfg(target_os = "linux")]
mod nameless {
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::unix::fs::FileExt;
    use std::path::{Path, PathBuf};

    use belljar::session::RegistryLimits;
    use belljar::{Runtime, Session, SessionOptions};

    use super::super::{block_on, out, session_on, told};
    use super::{is_after, more};

    /// Some of the bytes in the middle.
    const MIDST: &str = "print(memoryview(x)[2 << 20 : (2 << 20) + 64].hex())";

    /// A session of a runtime that keeps its files in `dir`.
    async fn apart(dir: &Path) -> (Runtime, Session) {
        let bounds = RegistryLimits::default().dir(dir);
        let runtime = Runtime::builder().environment().sessions(bounds).build().unwrap();
        let session = session_on(&runtime, SessionOptions::new().image("core")).await;
        (runtime, session)
    }

    /// The unnamed file of suspended sessions in `dir`.
    fn put_away(dir: &Path) -> File {
        let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
        let is_in =
            |path: &PathBuf| fs::read_link(path).is_ok_and(|target| target.starts_with(dir));
        let path = open.into_iter().find(is_in).unwrap();
        File::options().read(true).write(true).open(path).unwrap()
    }

    /// The number of stored sessions.
    fn count(dir: &Path) -> usize {
        const SLOT: usize = 64 << 10;
        let mut bytes = Vec::new();
        put_away(dir).read_to_end(&mut bytes).unwrap();
        bytes.chunks(SLOT).filter(|slot| slot.starts_with(b"belljar\x1c")).count()
    }

    /// Changes a byte in the middle of bytes that exist once.
    fn damage(dir: &Path, bytes: &[u8]) {
        let (mut file, mut all) = (put_away(dir), Vec::new());
        file.read_to_end(&mut all).unwrap();
        let at = all.windows(bytes.len()).position(|window| window == bytes).expect("it is there");
        let at = at + bytes.len() / 2;
        file.write_all_at(&[all[at] ^ 0x10], at as u64).unwrap();
    }

    fn unhexed(text: &str) -> Vec<u8> {
        let digits = text.trim().as_bytes();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn waking_reads_the_latest_state_alone() {
        block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let (_runtime, session) = apart(dir.path()).await;
            let mut seen = Vec::new();
            for n in 1..=5 {
                more(&session, n).await;
                seen.push(unhexed(&out(&session, MIDST).await));
            }
            assert!(session.suspend().await);
            assert_eq!(count(dir.path()), 1);
            damage(dir.path(), &seen[0]);
            // Nothing reads the damaged chunk: neither resuming, nor suspending again, nor another
            // state.
            is_after(&session, 5).await;
            assert_eq!(count(dir.path()), 1, "what was not read is kept");
            for _ in 0..2 {
                assert!(session.suspend().await);
                assert_eq!(count(dir.path()), 1);
                is_after(&session, 5).await;
            }
            let fork = session.fork().await.unwrap();
            let (error, _) = told(session.rewind(1).await);
            assert!(error.contains("after run 1: that state cannot be read"), "{error}");
            assert!(error.ends_with("was cut short or altered"), "{error}");
            session.rewind(8).await.unwrap();
            is_after(&session, 4).await;
            // Suspended again, it has the same place.
            assert!(fork.suspend().await && session.suspend().await);
            assert!(told(fork.rewind(2).await).0.contains("cannot be read"));
            for (one, run, n) in [(&fork, 10, 5), (&fork, 6, 3), (&session, 5, 3)] {
                one.rewind(run).await.unwrap();
                is_after(one, n).await;
            }
            session.rewind(0).await.unwrap();
            session.close();
            fork.close();
        });
    }
}

#[test]
fn a_past_that_was_not_read_goes_wherever_the_session_goes() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let session = core().await;
        for n in 1..=3 {
            more(&session, n).await;
        }
        // The store knows its chunks, but not after it was suspended.
        session.save(&store, "states/a", Condition::Absent).await.unwrap().unwrap();
        for n in 4..=9 {
            assert!(session.suspend().await);
            more(&session, n).await;
        }
        let fork = session.fork().await.unwrap();
        session.save(&store, "states/b", Condition::Absent).await.unwrap().unwrap();
        assert!(session.suspend().await && fork.suspend().await);
        more(&fork, 10).await;
        session.checkpoint(&path).await.unwrap();
        let stored = async |key| {
            let options = RestoreOptions::stored(Arc::clone(&store), key);
            runtime().restore(options).await.unwrap_or_else(|e| panic!("{}", chain(&e)))
        };
        let restored = stored("states/b").await;
        // Its origin is known, but its past is in another place now.
        more(&restored, 10).await;
        assert!(restored.suspend().await);
        more(&restored, 11).await;
        restored.save(&store, "states/c", Condition::Absent).await.unwrap().unwrap();
        let third = stored("states/c").await;
        let again = runtime().restore(&path).await.unwrap_or_else(|e| panic!("{}", chain(&e)));
        let all = [(&session, 9), (&fork, 10), (&restored, 11), (&third, 11), (&again, 9)];
        for (one, last) in all {
            assert_eq!(one.history().await.unwrap().len(), last);
            assert!(one.suspend().await);
            for n in (1..=last).rev() {
                one.rewind(n as u64).await.unwrap();
                is_after(one, n).await;
                one.rewind(n as u64).await.unwrap();
            }
            one.rewind(0).await.unwrap();
            assert_eq!(out(one, "'n' in globals()").await, "False\n");
            one.close();
        }
    });
}

/// What happens to a file.
type Change<'a> = &'a dyn Fn(&Path);

/// Whatever happened to the previous file.
#[test]
fn the_next_checkpoint_is_whole() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let before = dir.path().join("before.belljar");
        let session = core().await;
        let mut last = 0;
        let overwritten = |path: &Path| {
            let modified = fs::metadata(path).unwrap().modified().unwrap();
            let mut bytes = fs::read(path).unwrap();
            // Random data is stored uncompressed.
            let at = bytes.windows(64).rposition(|window| !window.contains(&0)).unwrap();
            bytes[at] ^= 1;
            fs::write(path, bytes).unwrap();
            // An unchanged modification time counts as an unchanged file.
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(modified).unwrap();
        };
        let changes: [Change<'_>; 5] = [
            &|_| {},
            &|path| fs::remove_file(path).unwrap(),
            &overwritten,
            &|path| fs::write(path, "").unwrap(),
            &|path| fs::rename(path, path.with_extension("moved")).unwrap(),
        ];
        for change in changes {
            session.checkpoint(&before).await.unwrap();
            last += 1;
            more(&session, last).await;
            let fork = session.fork().await.unwrap();
            change(&before);
            for one in [&session, &fork] {
                let path = dir.path().join(format!("after-{last}.belljar"));
                one.checkpoint(&path).await.unwrap();
                let restored =
                    runtime().restore(&path).await.unwrap_or_else(|e| panic!("{}", chain(&e)));
                // Into the file that it was restored from.
                restored.checkpoint(&path).await.unwrap();
                restored.close();
                let restored =
                    runtime().restore(&path).await.unwrap_or_else(|e| panic!("{}", chain(&e)));
                for n in (1..=last).rev() {
                    restored.rewind(n as u64).await.unwrap();
                    is_after(&restored, n).await;
                    restored.rewind(n as u64).await.unwrap();
                }
                restored.close();
            }
            fork.close();
        }
        session.close();
    });
}
