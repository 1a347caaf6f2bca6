//! Golden images of each version, in `tests/goldens`. The output of a version never changes, and
//! output of older versions stays readable. Only header and manifest are stored; the memory is
//! created here.
//!
//! A change of the format needs a new `VERSION` in `format.rs`, and then one run of
//! `BELLJAR_WRITE_GOLDENS=1 cargo test --release --lib goldens`, which adds the file of that
//! version and changes no other.

use std::fs;
use std::path::{Path, PathBuf};

use super::format::{VERSION, read_head, write};
use super::{InterruptAddresses, Manifest, Reserved};
use crate::artifact::PAGE;

#[test]
fn what_this_version_writes_never_changes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(&mut file.reopen().unwrap(), &manifest(), &memory()).unwrap();
    let written = fs::read(file.path()).unwrap();
    let (head, tail) = written.split_at(head_length(&written));
    assert_eq!(tail, after(head));

    let golden = path(VERSION);
    if std::env::var_os("BELLJAR_WRITE_GOLDENS").is_some() && !golden.exists() {
        fs::write(&golden, head).unwrap();
    }
    let golden = fs::read(&golden).expect("each version has a golden file: see above");
    assert!(head == golden, "version {VERSION} of the image writes other bytes: raise it");
}

#[test]
fn every_version_is_readable() {
    for version in 1..=VERSION {
        let head = fs::read(path(version)).expect("each version has a golden file: see above");
        let whole = [head.clone(), after(&head)].concat();
        let head = read_head(&whole[..], whole.len() as u64, Path::new("(golden)")).unwrap();
        assert_eq!(head.manifest, manifest(), "version {version}");
    }
}

fn path(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/goldens/image-v{version}.head"))
}

/// A manifest with all fields.
fn manifest() -> Manifest {
    Manifest {
        name: "golden".into(),
        base: Some("core".into()),
        description: "An image, \"quoted\", with ü".into(),
        imports: vec!["json".into(), "numpy".into()],
        packages: vec!["plotly==6.0.0".into()],
        package_file: Some("packages/golden".into()),
        artifact: "a".repeat(64),
        recipe: "b".repeat(64),
        stack_pointer: 16_777_216,
        interrupt: Some(InterruptAddresses {
            tripped: 4,
            is_tripped: 8,
            eval_breaker: 12,
        }),
        reserved: Some(Reserved {
            run_source: 1_024,
            answer: 2_048,
            answer_bytes: 4_096,
        }),
        extensions: Vec::new(),
        replaced: Vec::new(),
    }
}

/// Two pages of memory: zeros, with a few other blocks.
fn memory() -> Vec<u8> {
    let mut memory = vec![0; 2 * PAGE];
    for (at, byte) in [(0, 1), (40_960, 2), (2 * PAGE - 1, 3)] {
        memory[at] = byte;
    }
    memory
}

/// Returns the bytes after header and manifest.
fn after(head: &[u8]) -> Vec<u8> {
    let offset = head.len().next_multiple_of(PAGE);
    [vec![0; offset - head.len()], memory()].concat()
}

/// Returns the length according to `docs/internals/images.md`: 96 bytes, and the manifest, whose
/// length is at offset 12.
fn head_length(image: &[u8]) -> usize {
    96 + u32::from_le_bytes(image[12..16].try_into().unwrap()) as usize
}
