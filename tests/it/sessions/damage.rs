//! Files that are not checkpoints, or damaged ones: rejected with a clear error, without harm.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use belljar::error::Blame;
use belljar::fuzzing::parse_checkpoint;
use belljar::request::{Deterministic, RunLimits};
use belljar::session::RegistryLimits;
use belljar::{Request, RequestLimits, Runtime, SessionOptions};
use serde_json::{Value, json};

use super::{block_on, core, out, run, session_on, told};
use crate::support::{chain, failed, runtime};

async fn checkpoint(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("session.belljar");
    let session = core().await;
    out(&session, "x = 1\nopen('a.txt', 'w').write('a')\nf = open('a.txt')").await;
    session.checkpoint(&path).await.unwrap();
    session.close();
    path
}

/// The error of restoring the file, or of loading all of the session.
async fn refused(bytes: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let result = match runtime().restore(file.path()).await {
        Ok(session) => {
            let written = session.checkpoint_to(std::io::sink()).await;
            session.close();
            written
        }
        Err(error) => Err(error),
    };
    let (error, _) = told(result);
    error.replace(file.path().to_str().unwrap(), "FILE")
}

#[test]
fn every_damage_is_told() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(checkpoint(dir.path()).await).unwrap();
        let changed = "FILE is not a usable checkpoint: it was cut short or altered: its checksum \
                       does not match";
        let chunk = "FILE is not a usable checkpoint: its chunk ";
        let end = "FILE is not a usable checkpoint: it does not end where it should";
        for length in (12..bytes.len()).step_by(bytes.len() / 40) {
            let error = refused(&bytes[..length]).await;
            assert!(error.ends_with("it ends too early"), "{error}");
        }
        for at in (20..bytes.len()).step_by(bytes.len() / 40) {
            let mut altered = bytes.clone();
            // Two bits: a decompressor ignores some single ones.
            altered[at] ^= 0x11;
            let error = refused(&altered).await;
            let is_told = error == changed
                || error == end
                || error.ends_with("it ends too early")
                || error.starts_with(chunk) && error.ends_with("was cut short or altered");
            assert!(is_told, "byte {at}: {error}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(refused(&longer).await, end);
        assert_eq!(refused(b"").await, "FILE is not a usable checkpoint: it ends too early");
        for other in [b"PK\x03\x04 something else altogether".as_slice(), b"x = 1"] {
            assert_eq!(
                refused(other).await,
                "FILE is not a usable checkpoint: it does not begin like a checkpoint"
            );
        }
        let mut newer = bytes.clone();
        newer[8] = 4;
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
        // A runtime with lower limits.
        let strict = Runtime::builder()
            .environment()
            .ceilings(RunLimits::CEILINGS.memory(16 << 20))
            .build()
            .unwrap();
        let (error, _) = told(strict.restore(&path).await);
        assert!(error.contains("limits.memory"), "{error}");
        // A directory that cannot be written; existing files stay.
        let session = session_on(runtime(), SessionOptions::new().image("core")).await;
        let error = session.checkpoint(dir.path().join("no/such/dir")).await.unwrap_err();
        assert!(chain(&error).starts_with("cannot write the checkpoint "), "{}", chain(&error));
        assert_eq!((error.code(), error.blame()), ("session.write", Blame::Machine));
        session.close();
    });
}

/// Deliberate damage with valid checksums.
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

/// The checkpoint with a deliberately altered manifest, and names and checksums that match. `alter`
/// sees the documents of states and directories in place of their names in the manifest. It can
/// also choose the listed `chunks`, and how many of them the file contains.
fn forged(bytes: &[u8], alter: impl Fn(&mut Value)) -> tempfile::NamedTempFile {
    let (mut manifest, mut chunks) = taken_apart(bytes);
    let inside = |name: &Value| -> Value {
        let name = name.as_str().unwrap();
        serde_json::from_slice(chunks.get(name).unwrap()).unwrap()
    };
    for state in manifest["states"].as_array_mut().unwrap() {
        *state = inside(state);
        state["contents"] = inside(&state["contents"]);
    }
    manifest["chunks"] = Value::Null;
    manifest["carried"] = Value::Null;
    alter(&mut manifest);
    let mut add = |document: &mut Value| {
        let bytes = serde_json::to_vec(document).unwrap();
        *document = blake3::hash(&bytes).to_hex().to_string().into();
        chunks.insert(document.as_str().unwrap().into(), bytes);
    };
    for state in manifest["states"].as_array_mut().unwrap() {
        add(&mut state["contents"]);
        add(state);
    }
    if manifest["chunks"].is_null() {
        manifest["chunks"] =
            chunks.iter().map(|(name, plain)| json!([name, plain.len()])).collect();
    }
    if manifest["carried"].is_null() {
        manifest["carried"] = chunks.len().into();
    }
    let carried = manifest["carried"].as_u64().unwrap_or(0);
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let compressed = zstd::bulk::compress(&manifest, 1).unwrap();
    let mut file = bytes[..12].to_vec();
    for length in [manifest.len(), compressed.len()] {
        file.extend(u32::try_from(length).unwrap().to_le_bytes());
    }
    let sum = blake3::Hasher::new().update(&file).update(&compressed).finalize();
    file.extend(sum.as_bytes());
    file.extend(compressed);
    for plain in chunks.values().take(usize::try_from(carried).unwrap()) {
        let chunk = zstd::bulk::compress(plain, 1).unwrap();
        file.extend(u32::try_from(chunk.len()).unwrap().to_le_bytes());
        file.extend(chunk);
    }
    let target = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(target.path(), file).unwrap();
    target
}

/// The manifest of a checkpoint, and the contents of its chunks.
fn taken_apart(bytes: &[u8]) -> (Value, BTreeMap<String, Vec<u8>>) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 52 + word(16);
    let manifest = zstd::bulk::decompress(&bytes[52..at], word(12)).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let mut chunks = BTreeMap::new();
    for listed in manifest["chunks"].as_array().unwrap() {
        let end = at + 4 + word(at);
        let length = usize::try_from(listed[1].as_u64().unwrap()).unwrap();
        let plain = zstd::bulk::decompress(&bytes[at + 4..end], length).unwrap();
        chunks.insert(listed[0].as_str().unwrap().to_owned(), plain);
        at = end;
    }
    (manifest, chunks)
}

#[test]
fn a_forged_manifest_does_not_widen_the_limits() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let limits = RequestLimits::default().workspace(1 << 20);
        let options = SessionOptions::new().image("core").run_limits(limits);
        let session = session_on(runtime(), options).await;
        out(&session, "open('a.txt', 'w').write('a')").await;
        session.checkpoint(&path).await.unwrap();
        session.close();
        let bytes = std::fs::read(&path).unwrap();
        let file = forged(&bytes, |manifest| {
            for state in manifest["states"].as_array_mut().unwrap() {
                state["placed"] = json!([u64::MAX, u64::MAX]);
            }
        });
        let restored = runtime().restore(file.path()).await.unwrap();
        let more = run(&restored, Request::new("open('b', 'wb').write(bytes(2 << 20))")).await;
        assert!(more.error.as_ref().is_some_and(|e| e.starts_with("OSError")), "{more:#?}");
        failed(&more, belljar::outcome::ErrorKind::Exception);
        restored.close();

        // A thousand names of one file are not a thousand files.
        let file = forged(&bytes, |manifest| {
            for state in manifest["states"].as_array_mut().unwrap() {
                state["placed"] = json!([u64::MAX, 0]);
                let nodes = &mut state["contents"]["nodes"];
                let Some(entry) = nodes.get(0).map(|node| node[1].clone()) else {
                    continue;
                };
                let names = (0..100_000).map(|n| json!([format!("workspace/{n}"), entry]));
                *nodes = names.collect();
            }
        });
        let restored = runtime().restore(file.path()).await.unwrap();
        let write = "import os\nfor n in range(100_000): os.unlink(str(n))\n\
                     print(open('b', 'wb').write(bytes((1 << 20) + 50_000)))";
        let more = run(&restored, Request::new(write).timeout(Duration::from_mins(1))).await;
        assert!(more.error.as_ref().is_some_and(|e| e.starts_with("OSError")), "{more:#?}");
        restored.close();

        let file = forged(&bytes, |manifest| {
            manifest["session"]["history_bounds"] = json!({"runs": u64::MAX, "bytes": u64::MAX});
        });
        let ceilings = RunLimits::CEILINGS.memory(256 << 20);
        let strict = Runtime::builder().environment().ceilings(ceilings).build().unwrap();
        let restored = strict.restore(file.path()).await.unwrap();
        for n in 0..8 {
            run(&restored, Request::new(format!("x = bytes([{n} + 1]) * (80 << 20)"))).await;
        }
        let kept = restored.history().await.unwrap().len();
        assert!(kept < 6, "{kept} states of 80 MiB each are kept");
        restored.close();

        let file = forged(&bytes, |manifest| {
            manifest["session"]["execution"] = u64::MAX.into();
        });
        let (error, _) = told(runtime().restore(file.path()).await);
        assert!(error.ends_with("its history is too long"), "{error}");
        let sessions = RegistryLimits::default().restored(1 << 10);
        let small = Runtime::builder().environment().sessions(sessions).build().unwrap();
        let (error, _) = told(small.restore(&path).await);
        assert!(error.ends_with("it holds more than this runtime restores"), "{error}");
    });
}

#[test]
fn forged_clocks_do_not_overflow() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        for deterministic in [false, true] {
            let path = dir.path().join(format!("session-{deterministic}"));
            let mut options = SessionOptions::new().image("core");
            if deterministic {
                options = options.deterministic(Deterministic::default());
            }
            let session = session_on(runtime(), options).await;
            out(&session, "import time, os").await;
            session.checkpoint(&path).await.unwrap();
            session.close();
            let file = forged(&std::fs::read(&path).unwrap(), |manifest| {
                if deterministic {
                    manifest["session"]["deterministic"]["epoch"] = u64::MAX.into();
                }
                for state in manifest["states"].as_array_mut().unwrap() {
                    state["lived"] = json!({"secs": u64::MAX, "nanos": 0});
                    state["random_blocks"] = u64::MAX.into();
                }
            });
            let restored = runtime().restore(file.path()).await.unwrap();
            let look = "time.monotonic() > 0, len(os.urandom(100)), time.time_ns() != 0";
            run(&restored, Request::new(look)).await;
            run(&restored, Request::new(look)).await;
            restored.close();
        }
    });
}

/// Any problem with a manifest is reported.
#[test]
fn every_impossible_manifest_is_told() {
    type Alter = fn(&mut Value);
    let cases: [(&str, Alter); 21] = [
        ("is based on another version of the image core", |m| {
            m["session"]["image"]["memory"] = "00".repeat(32).into();
        }),
        ("there is no image \"nonesuch\"; there are ", |m| {
            m["session"]["image"]["name"] = "nonesuch".into();
        }),
        ("there is no image \"../core\"; there are ", |m| {
            m["session"]["image"]["name"] = "../core".into();
        }),
        ("is a session with /data mounted, which is not ", |m| {
            m["session"]["mounts"] = json!(["/data"]);
        }),
        ("its manifest is not valid", |m| m["more"] = 1.into()),
        ("a document of it is not valid", |m| m["states"][0]["more"] = 1.into()),
        ("it lists a chunk twice", |m| {
            m["chunks"] = json!([["00".repeat(32), 1], ["00".repeat(32), 1]]);
        }),
        ("it names a chunk that it does not list", |m| m["chunks"] = json!([])),
        ("its manifest is not valid", |m| m["chunks"] = json!([["no name", 1]])),
        (" is missing", |m| m["carried"] = 1.into()),
        ("it names pages that no chunk has", |m| {
            m["states"][0]["stretches"] = json!([[5, 1_000_000, 0, 0]]);
        }),
        ("it names bytes that no chunk has", |m| {
            m["states"][0]["contents"]["files"] = json!([1]);
            m["states"][0]["contents"]["pieces"] = json!([[0, 1, u32::MAX]]);
        }),
        ("it names a chunk that is not there", |m| {
            m["states"][0]["stretches"] = json!([[5, 1, 99, 0]]);
        }),
        ("it names a state that is not there", |m| m["current"] = 99.into()),
        ("a state has more or less memory than it may", |m| m["states"][0]["memory"] = 1.into()),
        ("a state's pages are not where they may be", |m| {
            m["states"][0]["stretches"] = json!([[5, 2, 0, 0], [6, 2, 0, 0]]);
        }),
        ("a state has an open file that cannot be", |m| {
            m["states"][0]["descriptors"][0][0]["number"] = (-1).into();
        }),
        ("a state has an open file that cannot be", |m| {
            m["states"][0]["descriptors"][0][0]["number"] = 1000.into();
        }),
        ("a state has a file outside of its directories", |m| {
            m["states"][0]["contents"]["nodes"] = json!([["workspace/../../x", "directory"]]);
        }),
        ("a state has a file outside of its directories", |m| {
            let deep = (1..1000).map(|n| json!([format!("tmp{}", "/d".repeat(n)), "directory"]));
            m["states"][0]["contents"]["nodes"] = deep.collect();
        }),
        ("it names a file that is not there", |m| {
            let file = json!({"file": {"file": 99, "modified": {"secs": 0, "nanos": 0}}});
            m["states"][0]["contents"]["nodes"] = json!([["workspace/x", file]]);
        }),
    ];
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(checkpoint(dir.path()).await).unwrap();
        for (expected, alter) in cases {
            let file = forged(&bytes, alter);
            let (error, _) = told(runtime().restore(file.path()).await);
            assert!(error.contains(expected), "{expected}: {error}");
        }
    });
}
