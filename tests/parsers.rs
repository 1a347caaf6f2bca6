//! All parsers of untrusted bytes, on damaged inputs: the corpus of the fuzz targets, cut, spliced
//! and overwritten. The cases are the same every time; `fuzz/run` searches further.

use std::fs;
use std::path::Path;

use belljar::fuzzing::{
    call_tools, check_document, check_image_head, checkpoint_of, convert, parse_checkpoint,
    parse_frame, parse_value,
};
use belljar::request::{HostPaths, RunRequest};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};

const CASES: u32 = 20_000;

/// The corpus of a fuzz target, sorted by name.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "{target} has a small corpus");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A way to damage an input.
#[derive(Clone, Debug)]
enum Damage {
    Overwrite(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    Splice(Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Overwrite(at, byte)),
        (any::<Index>(), pieces()).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (any::<Index>(), 1..20usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (any::<Index>(), 1..300usize).prop_map(|(at, count)| Damage::Repeat(at, count)),
        (any::<Index>(), any::<Index>()).prop_map(|(at, from)| Damage::Splice(at, from)),
    ]
}

/// Values that often break parsers.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let known: [&[u8]; 12] = [
        b"\"",
        b"{",
        b"[",
        b"\\u0000",
        b"\\ud800",
        b"\xff",
        b"1e999",
        b"-0",
        b"18446744073709551616",
        b"null",
        b"\0\0\0\0\0\0\0\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    prop_oneof![
        proptest::sample::select(known.map(<[u8]>::to_vec).to_vec()),
        proptest::collection::vec(any::<u8>(), 1..9),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage, corpus: &[Vec<u8>]) {
    let place = |at: &Index| at.index(bytes.len() + 1);
    match damage {
        Damage::Overwrite(at, byte) => {
            let at = place(at);
            if let Some(there) = bytes.get_mut(at) {
                *there = *byte;
            }
        }
        Damage::Insert(at, piece) => {
            let at = place(at);
            bytes.splice(at..at, piece.iter().copied());
        }
        Damage::Remove(at, count) => {
            let at = place(at);
            bytes.drain(at..bytes.len().min(at + count));
        }
        Damage::Repeat(at, count) => {
            let at = place(at);
            if let Some(byte) = bytes.get(at).copied() {
                bytes.splice(at..at, std::iter::repeat_n(byte, *count));
            }
        }
        Damage::Splice(at, from) => {
            let at = place(at);
            let other = from.get(corpus);
            bytes.truncate(at);
            bytes.extend(&other[at.min(other.len())..]);
        }
    }
}

/// Parses every input of the corpus, intact and damaged. Parsing may fail but must not panic.
fn withstands(target: &str, parse: impl Fn(&[u8])) {
    let corpus = corpus(target);
    for bytes in &corpus {
        parse(bytes);
    }
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..Config::default()
    };
    let strategy = (any::<Index>(), proptest::collection::vec(damage(), 1..6));
    TestRunner::new(config)
        .run(&strategy, |(start, damages)| {
            let mut bytes = start.get(&corpus).clone();
            for damage in &damages {
                apply(&mut bytes, damage, &corpus);
            }
            parse(&bytes);
            Ok(())
        })
        .unwrap();
}

#[test]
fn frames_of_a_guest() {
    withstands("frame", |frame| {
        parse_frame(frame);
    });
}

#[test]
fn calls_of_tools() {
    withstands("calls", |frames| {
        call_tools(frames);
    });
}

#[test]
fn typed_values_of_a_guest() {
    withstands("value", |bytes| {
        parse_value(bytes);
    });
}

#[test]
fn compressed_data_of_a_guest() {
    withstands("codecs", |frame| {
        convert(frame);
    });
}

/// In the corpus of documents, the first byte selects the kind.
#[test]
fn documents_of_a_run() {
    const NAMES: [&str; 5] = ["a.pdf", "a.docx", "a.xlsx", "a.odt", "part.xml"];
    withstands("document", |bytes| {
        if let Some((kind, document)) = bytes.split_first() {
            let _ = check_document(NAMES[usize::from(*kind) % NAMES.len()], document);
        }
    });
}

/// In the corpus of images, the first byte is for the fuzz target only.
#[test]
fn heads_of_images() {
    withstands("image_head", |bytes| {
        let _ = check_image_head(bytes.get(1..).unwrap_or_default());
    });
}

/// In the corpus of checkpoints, the first byte selects what follows: a file, or a text for one.
#[test]
fn checkpoints_of_sessions() {
    withstands("checkpoint", |bytes| match bytes.split_first() {
        Some((how @ 0..2, file)) => {
            parse_checkpoint(file, *how == 1);
        }
        Some((_, text)) => {
            parse_checkpoint(&checkpoint_of(text), true);
        }
        None => {}
    });
}

/// A corpus without valid inputs would not be worth damaging.
#[test]
fn checkpoints_of_the_corpus_are_whole() {
    for name in ["chunked", "chunked_files", "chunked_history", "chunked_waiting"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/checkpoint").join(name);
        assert!(parse_checkpoint(&checkpoint_of(&fs::read(path).unwrap()[1..]), true), "{name}");
    }
    // Parts that are loaded later are checked as well.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/checkpoint/past_past_chunk");
    assert!(!parse_checkpoint(&checkpoint_of(&fs::read(path).unwrap()[1..]), true));
}

#[test]
fn requests_are_written_as_they_were_read() {
    withstands("request", |line| {
        let Ok(asked) = serde_json::from_slice::<RunRequest>(line) else {
            return;
        };
        let written = serde_json::to_vec(&asked).unwrap();
        assert_eq!(serde_json::from_slice::<RunRequest>(&written).unwrap(), asked);
        let _ = asked.into_request(HostPaths::Allowed);
    });
}

/// The corpus has both valid and invalid inputs.
#[test]
fn the_corpus_holds_good_and_bad() {
    let both = |verdicts: Vec<bool>| verdicts.contains(&true) && verdicts.contains(&false);
    assert!(both(corpus("frame").iter().map(|frame| parse_frame(frame)).collect()));
    assert!(both(corpus("codecs").iter().map(|frame| convert(frame).is_some()).collect()));
    assert!(both(corpus("value").iter().map(|bytes| parse_value(bytes)).collect()));
    assert!(corpus("calls").iter().any(|frames| call_tools(frames) > 40));
    let read = |line: &Vec<u8>| serde_json::from_slice::<RunRequest>(line).is_ok();
    assert!(both(corpus("request").iter().map(read).collect()));
    // The image's memory would make its file large, so it is added here.
    let whole = |head: &Vec<u8>| {
        let mut file = head.get(1..).unwrap_or_default().to_vec();
        file.resize(2 << 16, 0);
        check_image_head(&file).is_ok()
    };
    assert!(both(corpus("image_head").iter().map(whole).collect()));
}
