//! Files that are not checkpoints, or not any more: refused with a clear error, and of no harm.

use std::path::Path;

use belljar::{Bounds, Runtime, SessionOptions, parse_checkpoint};

use super::{block_on, core, out, session_on, told};
use crate::support::{chain, runtime};

async fn checkpoint(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("session.belljar");
    let session = core().await;
    out(&session, "x = 1\nopen('a.txt', 'w').write('a')\nf = open('a.txt')").await;
    session.checkpoint(&path).await.unwrap();
    session.close();
    path
}

async fn refused(bytes: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let (error, _) = told(runtime().restore(file.path()).await);
    error.replace(file.path().to_str().unwrap(), "FILE")
}

#[test]
fn every_damage_is_told() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(checkpoint(dir.path()).await).unwrap();
        let changed = "FILE is not a usable checkpoint: it was cut short or altered: its checksum \
                       does not match";
        for length in (12..bytes.len()).step_by(bytes.len() / 40) {
            let error = refused(&bytes[..length]).await;
            assert!(error == changed || error.ends_with("it ends too early"), "{error}");
        }
        for at in (12..bytes.len()).step_by(bytes.len() / 40) {
            let mut altered = bytes.clone();
            altered[at] ^= 0x10;
            assert_eq!(refused(&altered).await, changed, "byte {at}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(refused(&longer).await, changed);
        assert_eq!(refused(b"").await, "FILE is not a usable checkpoint: it ends too early");
        assert_eq!(
            refused(b"PK\x03\x04 something else altogether").await,
            "FILE is not a usable checkpoint: it does not begin like a checkpoint"
        );
        let mut newer = bytes.clone();
        newer[8] = 2;
        assert_eq!(
            refused(&newer).await,
            "FILE is not a usable checkpoint: it was written by another version of belljar"
        );
    });
}

#[test]
fn what_cannot_be_had_is_told() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = checkpoint(dir.path()).await;
        let (error, _) = told(runtime().restore(&dir.path().join("none")).await);
        assert!(error.starts_with("cannot open the checkpoint "), "{error}");
        // A runtime that allows less.
        let strict = Runtime::builder()
            .ceilings(Bounds {
                memory: 16 << 20,
                ..Bounds::CEILINGS
            })
            .build()
            .unwrap();
        let (error, _) = told(strict.restore(&path).await);
        assert!(error.contains("limits.memory"), "{error}");
        // A place that cannot be written; what was there stays.
        let session = session_on(runtime(), SessionOptions::new().image("core")).await;
        let error = session.checkpoint(dir.path().join("no/such/dir")).await.unwrap_err();
        assert!(chain(&error).starts_with("cannot create a file in"), "{}", chain(&error));
        session.close();
    });
}

/// Damage that a checksum would not tell, because it was made on purpose.
#[test]
fn forged_bodies_do_no_harm() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(checkpoint(dir.path()).await).unwrap();
        assert!(parse_checkpoint(&bytes, true), "it is read to its end");
        let mut random = 1u32;
        for _ in 0..2_000 {
            let mut altered = bytes.clone();
            for _ in 0..3 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = 12 + random as usize % (altered.len() - 12);
                altered[at] = (random >> 24) as u8;
            }
            parse_checkpoint(&altered, false);
        }
    });
}
