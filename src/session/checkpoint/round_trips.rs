//! Tests that every session can be written, read and continued, whatever its limits. The oldest
//! part of its history is dropped if necessary.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use belljar_files::{Files, Limits};
use belljar_value::Value as Typed;
use proptest::prelude::*;
use serde_json::json;

use super::contents::Frozen;
use super::goldens;
use super::manifest_reader;
use super::read::Opened;
use super::trim::Caps;
use super::validate::{Given, Room, fixed};
use crate::api::policy::RunLimits;
use crate::api::request::{Deterministic, InputFile, Request};
use crate::api::tool::{Tool, WaitingCall};
use crate::sandbox::calls::{LogRoom, Logged, LoggedAnswer};
use crate::session::history::{History, HistoryEntry};
use crate::session::options::HistoryLimits;
use crate::session::pending::{Pending, Pins};
use crate::session::state::State;
use crate::session::storage::Storage;
use crate::session::timeline::Past;

/// A session under construction.
struct Maker {
    session: Frozen,
    storage: Arc<Storage>,
    _folder: tempfile::TempDir,
}

/// A run: the length of its code, the character that the code consists of, and the files that it
/// writes, each with the lengths of its name and content.
type Done = (usize, char, Vec<(usize, usize)>);

impl Maker {
    fn new(history: HistoryLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut session = goldens::golden();
        session.fixed.mounts.clear();
        session.fixed.bounds = RunLimits::CEILINGS;
        session.fixed.history = history;
        let state = Arc::clone(&session.past.state);
        session.past = Past {
            origin: Arc::clone(&state).into(),
            state,
            history: History::new(history),
        };
        session.execution = 0;
        Self {
            session,
            storage: Arc::new(Storage::of_test(folder.path())),
            _folder: folder,
        }
    }

    fn run(&mut self, (length, character, files): &Done) {
        self.session.execution += 1;
        let execution = self.session.execution;
        let before = &self.session.past.state;
        let mut tree = Files::clone(&before.files);
        tree.set_limits(Limits::NONE);
        for (number, (name, size)) in files.iter().enumerate() {
            // Names with characters that JSON escapes.
            let odd = |bytes| "\u{1}\"é".repeat(bytes / 4);
            let above = format!("{}/", odd(200)).repeat(name / 200);
            let name = format!("{above}{number}{}", odd(name % 200 + 4));
            let bytes = execution.to_le_bytes().repeat(size / 8);
            let content = tree.pool().content(&bytes).unwrap();
            tree.put_file(&format!("/workspace/{name}"), content, 0).unwrap();
        }
        self.end_run(tree, character.to_string().repeat(*length));
    }

    /// A run that changes one byte of a file of this length.
    fn change(&mut self, length: usize) {
        self.session.execution += 1;
        let mut tree = Files::clone(&self.session.past.state.files);
        tree.set_limits(Limits::NONE);
        let mut content = match tree.find("/workspace/large") {
            Ok(node) => tree.content(node).unwrap().clone(),
            Err(_) => tree.pool().content(&vec![1; length]).unwrap(),
        };
        content.write_at(tree.pool(), self.session.execution, b"x").unwrap();
        tree.put_file("/workspace/large", content, 0).unwrap();
        self.end_run(tree, "x".into());
    }

    fn end_run(&mut self, tree: Files, code: String) {
        let execution = self.session.execution;
        let state = Arc::new(State {
            kept: self.session.past.state.kept.clone(),
            files: Arc::new(tree),
            placed: (0, 0),
        });
        let record = HistoryEntry {
            execution,
            code,
            success: true,
            error: None,
            wall_ms: 1.0,
            fuel: execution,
        };
        self.session.past.history.push(record, Arc::clone(&state));
        self.session.past.state = state;
    }

    /// Adds a waiting run with these inputs, `variables` values, and calls whose answers have so
    /// many values and levels. If the request is rejected, no run waits.
    fn wait(&mut self, inputs: &[usize], variables: usize, answers: &[(usize, u32)]) {
        let bytes = |length: &usize| vec![*length as u8; *length];
        let mut inputs = inputs.iter().map(bytes);
        let mut request = Request::new("tools.approve()");
        request.stdin = inputs.next().unwrap_or_default();
        request.files = inputs
            .enumerate()
            .map(|(number, bytes)| InputFile::new(format!("{number}"), bytes))
            .collect();
        request.tools = vec![Tool::deferred("approve", json!({"type": "object"}))];
        let list = Typed::List(vec![Typed::None; variables]);
        request.variables.insert("list".into(), list);
        let (mut room, mut log) = (LogRoom::default(), Vec::new());
        for (number, (values, levels)) in answers.iter().enumerate() {
            let answer = (0..*levels).fold(json!(vec![0; *values]), |inner, _| json!([inner]));
            let (arguments, mut answer) = (json!({"number": number}), LoggedAnswer::Ok(answer));
            // Takes room in the log, as a run does.
            room.take_call(&arguments).unwrap();
            if let Err(error) = answer.take_room(&mut room) {
                answer = LoggedAnswer::given(Err(error.into_parts().1));
            }
            log.push(Logged {
                id: number as u64 + 2,
                name: "look".into(),
                arguments,
                answer,
                is_for_any: false,
            });
        }
        let mut pending = Pending {
            request,
            pins: Pins {
                deterministic: Deterministic::new(7),
                entropy: [1; 32],
            },
            log: Vec::new(),
            awaited: vec![WaitingCall {
                id: 1,
                name: "approve".into(),
                arguments: json!({"of": [1, null]}),
                typed: false,
            }],
        };
        let is_taken = pending.check_size().is_ok();
        pending.log = log;
        self.session.pending = is_taken.then_some(pending);
    }

    /// Writes the session, reads it back and continues with the result.
    fn move_on(&mut self, caps: &Caps) {
        let mut file = Vec::new();
        self.session.write_within(caps, &mut file, None).unwrap();
        let name = Path::new("(written)");
        let opened = Opened::open(Box::new(std::io::Cursor::new(file)), name).unwrap();
        let bounds = (&RunLimits::CEILINGS, 1 << 30);
        let (image, storage) = (Arc::clone(&self.session.image), Arc::clone(&self.storage));
        let read = opened.read(&image, Given::default(), storage, bounds, name);
        let mut read = read.unwrap_or_else(|error| panic!("{}", error.with_causes()));
        read.past.settle().unwrap_or_else(|error| panic!("{}", error.with_causes()));
        self.check(&read);
        self.session = Frozen {
            image,
            fixed: read.fixed,
            past: read.past,
            execution: read.execution,
            fuel: read.fuel,
            times: read.times,
            pending: read.pending,
        };
    }

    /// Checks that the read session equals this one, possibly without its oldest runs.
    fn check(&self, read: &super::Read) {
        let session = &self.session;
        assert_eq!((read.execution, read.fuel), (session.execution, session.fuel));
        is_same(&read.past.state, &session.past.state);
        is_same(&read.past.origin.read().unwrap(), &session.past.origin.read().unwrap());
        let (old, new) = (&session.past.history, &read.past.history);
        let left_out = old.entries().len() - new.entries().len();
        for (old, new) in old.entries().skip(left_out).zip(new.entries()) {
            assert_eq!(new.record, old.record);
            is_same(&new.state.read().unwrap(), &old.state.read().unwrap());
        }
        let inputs = |pending: &Option<Pending>| {
            pending.as_ref().map(|pending| {
                let inputs: Vec<Vec<u8>> = pending.inputs().map(<[u8]>::to_vec).collect();
                let request = &pending.request;
                let paths: Vec<String> = request.files.iter().map(|f| f.path.clone()).collect();
                let (code, variables) = (request.code.clone(), request.variables.clone());
                (inputs, paths, code, variables, pending.log.clone(), pending.awaited.clone())
            })
        };
        assert!(inputs(&read.pending) == inputs(&session.pending));
    }
}

fn is_same(one: &State, other: &State) {
    assert_eq!(listed(&one.files), listed(&other.files));
    assert_eq!(one.kept.pages.count(), other.kept.pages.count());
}

/// Lists all files with their contents, and links, by path.
fn listed(files: &Files) -> Vec<(String, Option<Vec<u8>>, Option<String>)> {
    let top = files.find("/workspace").unwrap();
    let listed = files.walk(top).map(|found| {
        let content = files.content(found.node).map(|content| {
            let mut bytes = vec![0; content.len() as usize];
            content.read_at(0, &mut bytes).unwrap();
            bytes
        });
        (found.path, content, files.target(found.node).map(str::to_owned))
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort();
    listed
}

fn runs() -> impl Strategy<Value = Vec<Done>> {
    let files = prop::collection::vec((0usize..400, 0usize..2_000), 0..12);
    let code = prop_oneof![Just('x'), Just('\u{1}'), Just('"'), Just('é')];
    prop::collection::vec((0usize..4_000, code, files), 0..16)
}

/// Inputs, variables and answers of a waiting run.
fn waiting() -> impl Strategy<Value = (Vec<usize>, usize, Vec<(usize, u32)>)> {
    let answers = prop::collection::vec((0usize..2_000, 0u32..200), 0..6);
    (prop::collection::vec(0usize..1_200_000, 0..4), 0usize..2_000, answers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Most of these sessions are too large unless the oldest runs are dropped and inputs are
    /// stored in chunks.
    #[test]
    fn every_session_can_be_written_and_gone_on_with(
        (most, bytes) in (0usize..20, prop_oneof![0u64..100_000, Just(u64::MAX)]),
        (files, documents, records) in (0usize..40, 0u64..40_000, 0u64..40_000),
        first in runs(),
        waiting in prop::option::of(waiting()),
        then in runs(),
    ) {
        let caps = Caps { files, documents, records };
        let mut maker = Maker::new(HistoryLimits { runs: most, bytes }.within(&RunLimits::CEILINGS));
        for done in &first {
            maker.run(done);
        }
        if let Some((inputs, variables, answers)) = &waiting {
            maker.wait(inputs, *variables, answers);
        }
        maker.move_on(&caps);
        maker.session.pending = None;
        for done in &then {
            maker.run(done);
        }
        maker.move_on(&caps);
        maker.move_on(&caps);
    }
}

/// Exceeds each limit of the format: code in the manifest, documents with many names, and inputs of
/// a waiting run.
#[test]
fn the_largest_history_and_inputs_can_be_written() {
    let history = HistoryLimits {
        runs: 10_000,
        bytes: 3 << 30,
    };
    let mut long_code = Maker::new(history);
    for _ in 0..175 {
        long_code.run(&(64 << 10, '\u{1}', Vec::new()));
    }
    let kept = long_code.session.past.history.entries().len();
    assert!((32..175).contains(&kept), "{kept} runs of 384 KiB each");
    long_code.move_on(&Caps::FORMAT);
    assert_eq!(long_code.session.past.history.entries().len(), kept, "nothing else is left out");

    let mut many_names = Maker::new(history);
    for run in 0..9 {
        many_names.run(&(1, 'x', vec![(1_000, 8 + run); 3_600]));
    }
    assert_eq!(many_names.session.past.history.entries().len(), 9);
    many_names.move_on(&Caps::FORMAT);
    let kept = many_names.session.past.history.entries().len();
    assert!((2..9).contains(&kept), "{kept} lists of 9 MiB each");

    let mut large_input = Maker::new(history);
    large_input.wait(&[0, 50 << 20], 0, &[]);
    large_input.move_on(&Caps::FORMAT);

    // Each value may take 128 bytes of the gigabyte that can be restored. A log may not hold twelve
    // times as many values, since it could not be read back.
    let mut many_values = Maker::new(history);
    many_values.wait(&[], 900_000, &[(1_400_000, 0); 12]);
    let log = &many_values.session.pending.as_ref().expect("it was refused").log;
    let taken = log.iter().filter(|logged| matches!(logged.answer, LoggedAnswer::Ok(_))).count();
    assert_eq!(taken, 2);
    many_values.move_on(&Caps::FORMAT);
    many_values.wait(&[], 1_100_000, &[]);
    assert!(many_values.session.pending.is_none(), "a request of too many values is taken");
}

/// Each run changes little of a large file. States that are read back share none of it.
#[test]
fn a_history_of_a_large_file_can_be_read() {
    let mut maker = Maker::new(HistoryLimits {
        runs: 100,
        bytes: 4 << 20,
    });
    maker.session.fixed.bounds = RunLimits::default().workspace(1 << 20);
    for _ in 0..40 {
        maker.change(900_000);
    }
    let kept = maker.session.past.history.entries().len();
    assert!((2..=6).contains(&kept), "{kept}");
    maker.move_on(&Caps::FORMAT);
    assert_eq!(maker.session.past.history.entries().len(), kept);
}

/// A session whose runs are limited by the ceiling alone follows that of each runtime.
#[test]
fn the_ceiling_is_that_of_the_runtime_that_restores() {
    let mut maker = Maker::new(HistoryLimits::default());
    let restored = |maker: &mut Maker, timeout| {
        maker.session.fixed.bounds = RunLimits::default().timeout(timeout);
        let mut file = Vec::new();
        maker.session.write_within(&Caps::FORMAT, &mut file, None).unwrap();
        let (manifest, _) =
            manifest_reader::manifest(&*file, true).unwrap_or_else(|_| panic!("it was written"));
        let ceilings = RunLimits::CEILINGS.timeout(Duration::from_secs(10));
        fixed(&manifest.session, Given::default(), &ceilings, Path::new("x"))
            .map(|fixed| fixed.bounds.timeout)
    };
    assert_eq!(restored(&mut maker, Duration::MAX).unwrap(), Duration::MAX);
    assert!(restored(&mut maker, Duration::from_secs(11)).is_err());
}

/// A file may claim any history limits: the runtime's limits apply.
#[test]
fn a_history_has_no_more_room_than_the_runtime_gives() {
    let mut maker = Maker::new(HistoryLimits {
        runs: usize::MAX,
        bytes: u64::MAX,
    });
    maker.session.fixed.bounds = RunLimits::default();
    let mut file = Vec::new();
    maker.session.write_within(&Caps::FORMAT, &mut file, None).unwrap();
    let (manifest, _) =
        manifest_reader::manifest(&*file, true).unwrap_or_else(|_| panic!("it was written"));
    let ceilings = RunLimits::CEILINGS.memory(1 << 30);
    let fixed = fixed(&manifest.session, Given::default(), &ceilings, Path::new("x")).unwrap();
    let files = maker.storage.roots.files(&fixed.mounts, None).unwrap();
    let room = Room::of(&fixed, 0, u64::MAX, files);
    assert_eq!(room.history, 1 << 30);
}
