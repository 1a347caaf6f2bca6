//! Golden checkpoints of each version, in `tests/goldens`. The output of a version never changes,
//! and output of older versions stays readable. The tests compare the contents of chunks, because
//! another release of zstd may compress them differently.
//!
//! A change of the format needs a new `VERSION` in `format.rs`, and then one run of
//! `BELLJAR_WRITE_GOLDENS=1 cargo test --release --lib goldens`. This writes the contents of the
//! newest golden file again, as a file of the new version. Add new features to it by hand, so that
//! they are compared.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use belljar_memory::{HOST_PAGE, Strategy};
use serde_json::Value;

use super::contents::Frozen;
use super::format::{FIRST_VERSION as FIRST, HEAD, MAGIC, SUM, VERSION};
use super::open_files::open_files;
use super::read::Opened;
use super::validate::Given;
use crate::api::policy::RunLimits;
use crate::api::request::{Mount, Policy};
use crate::artifact::PAGE;
use crate::artifact::image::{Image, Manifest};
use crate::session::clock::Times;
use crate::session::storage::Storage;

#[test]
fn what_this_version_writes_never_changes() {
    let golden = path(VERSION);
    if std::env::var_os("BELLJAR_WRITE_GOLDENS").is_some() && !golden.exists() {
        let newest = (FIRST..VERSION).rev().map(path).find(|path| path.exists());
        let older = fs::read(newest.expect("there is an older one")).unwrap();
        fs::write(&golden, written(&thawed(&older))).unwrap();
    }
    let golden = fs::read(&golden).expect("each version has a golden file: see above");
    let again = written(&thawed(&golden));
    assert_eq!(
        TakenApart::of(&again),
        TakenApart::of(&golden),
        "version {VERSION} of the checkpoint writes something else: raise it"
    );
}

/// The session of the golden file with nonzero times, because zero times are omitted.
#[test]
fn what_this_version_writes_of_times_never_changes() {
    let times = Times {
        age: Duration::from_millis(86_400_001),
        idle: Duration::from_millis(2_500),
    };
    let golden = path(VERSION).with_extension("times");
    if std::env::var_os("BELLJAR_WRITE_GOLDENS").is_some() && !golden.exists() {
        let session = Frozen {
            times,
            ..self::golden()
        };
        fs::write(&golden, written(&session)).unwrap();
    }
    let golden = fs::read(&golden).expect("it is written as the other one is: see above");
    let session = thawed(&golden);
    assert_eq!(session.times, times);
    assert_eq!(TakenApart::of(&written(&session)), TakenApart::of(&golden));
}

#[test]
fn every_version_is_readable() {
    for version in FIRST..=VERSION {
        let file = fs::read(path(version)).expect("each version has a golden file: see above");
        let session = thawed(&file);
        assert_eq!((session.execution, session.fuel), (3, 4_059_166), "version {version}");
        assert!(matches!(session.fixed.policy, Policy::Custom(_)));
        assert_eq!(session.fixed.mounts[0].guest, "/data");
        assert_eq!(session.fixed.deterministic.as_ref().map(|d| d.seed), Some(7));
        let state = &session.past.state;
        assert_eq!(state.kept.memory, 2 * PAGE);
        let mut page = vec![0; HOST_PAGE];
        let stretch = state.kept.pages.stretches().last().unwrap();
        stretch.part(stretch.count - 1, 1).read(&mut page).unwrap();
        assert_eq!(page, [b'c'; HOST_PAGE]);
        let open = open_files(state);
        let (_, nameless) = open[1].1.as_ref().unwrap();
        let mut bytes = [0; 9];
        assert_eq!(nameless.read_at(0, &mut bytes).unwrap(), 4);
        assert_eq!(&bytes[..4], b"gone");
        let top = state.files.find("/workspace").unwrap();
        let paths: Vec<String> = state.files.walk(top).map(|found| found.path).collect();
        assert_eq!(paths, ["a.txt", "d", "l"]);
        let codes: Vec<_> = session.past.history.entries().map(|e| &*e.record.code).collect();
        assert_eq!(codes, ["x = 1", "1 / 0"]);
    }
}

/// Returns the session in the newest golden file.
pub(super) fn golden() -> Frozen {
    thawed(&fs::read(path(VERSION)).unwrap())
}

/// Reads a session on this image from a file, like any checkpoint.
fn thawed(file: &[u8]) -> Frozen {
    let image = image();
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(Storage::of_test(folder.path()));
    let mount = Mount {
        host: folder.path().to_owned(),
        guest: "/data".into(),
    };
    let name = Path::new("(golden)");
    let opened = Opened::open(Box::new(Cursor::new(file.to_vec())), name).unwrap();
    let given = Given {
        mounts: vec![mount],
        ..Given::default()
    };
    let bounds = (&RunLimits::CEILINGS, u64::MAX);
    let mut read = opened.read(&image, given, storage, bounds, name).unwrap();
    read.past.settle().unwrap();
    Frozen {
        image,
        fixed: read.fixed,
        past: read.past,
        execution: read.execution,
        fuel: read.fuel,
        times: read.times,
        pending: read.pending,
    }
}

fn written(session: &Frozen) -> Vec<u8> {
    let mut bytes = Vec::new();
    session.write(&mut bytes, None).unwrap();
    bytes
}

/// Returns an image of one page.
pub(super) fn image() -> Arc<Image> {
    let manifest = Manifest {
        name: "golden".into(),
        base: None,
        description: String::new(),
        imports: Vec::new(),
        packages: Vec::new(),
        package_file: None,
        artifact: String::new(),
        recipe: String::new(),
        stack_pointer: 0,
        interrupt: None,
        reserved: None,
        extensions: Vec::new(),
        replaced: Vec::new(),
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("golden.image");
    Image::create(&file, &manifest, &vec![1; PAGE]).unwrap();
    Arc::new(Image::load(&file, Strategy::Copy).unwrap())
}

fn path(version: u32) -> PathBuf {
    let name = format!("tests/goldens/checkpoint-v{version}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The parts of the file, as specified in `docs/internals/checkpoints.md`.
#[derive(Debug, PartialEq)]
struct TakenApart {
    version: u32,
    /// The manifest as text, because the order of its keys matters.
    manifest: String,
    chunks: Vec<Vec<u8>>,
}

impl TakenApart {
    fn of(file: &[u8]) -> Self {
        let (mut head, mut rest) = file.split_at(HEAD);
        let sum = rest.split_off(..SUM).unwrap();
        head = head.strip_prefix(MAGIC).unwrap();
        let version = word(&mut head);
        let (length, compressed) = (word(&mut head) as usize, word(&mut head) as usize);
        let frame = rest.split_off(..compressed).unwrap();
        let summed = [&file[..HEAD], frame].concat();
        assert_eq!(blake3::hash(&summed).as_bytes(), sum);
        let manifest = zstd::bulk::decompress(frame, length).unwrap();
        assert_eq!(manifest.len(), length);
        let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
        manifest.as_object_mut().unwrap().shift_remove("written_by").unwrap();
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            chunks.push(zstd::bulk::decompress(piece(&mut rest), 1 << 20).unwrap());
        }
        let names = chunks.iter().map(|chunk| blake3::hash(chunk).to_hex().to_string());
        let listed = manifest["chunks"].as_array().unwrap().iter();
        assert!(names.eq(listed.map(|chunk| chunk[0].as_str().unwrap())));
        Self {
            version,
            manifest: manifest.to_string(),
            chunks,
        }
    }
}

fn word(rest: &mut &[u8]) -> u32 {
    u32::from_le_bytes(*rest.split_off(..4).unwrap().first_chunk().unwrap())
}

/// Reads bytes that are preceded by their length.
fn piece<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = word(rest) as usize;
    rest.split_off(..length).unwrap()
}
