//! Questions without a run leave nothing behind.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use belljar::blocking::Session;
use belljar::error::SessionError;
use belljar::request::Deterministic;
use belljar::session::Completeness;
use belljar::value::{Array, Value};
use belljar::{Error, Request, SessionOptions};

use crate::support::{runtime, succeeded};

fn session(image: &str) -> Session {
    runtime().blocking().session(SessionOptions::new().image(image)).unwrap()
}

#[track_caller]
fn run(session: &Session, code: &str) -> String {
    let outcome = session.run(Request::new(code)).unwrap();
    succeeded(&outcome);
    outcome.stdout
}

fn evaluate(session: &Session, source: &str) -> Result<Value, String> {
    let asked = BTreeMap::from([("x".to_owned(), source.to_owned())]);
    session.evaluate(asked).unwrap().remove("x").unwrap()
}

/// The error of an unanswered question.
#[track_caller]
fn unanswered<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Err(Error::Session(SessionError::Question { reason })) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn variables_are_read_and_set_between_runs() {
    let session = session("core");
    run(&session, "x = (1, {2: 'b'})");
    let expected = Value::Tuple(vec![1.into(), Value::Dict(vec![(2.into(), "b".into())])]);
    assert_eq!(session.get("x").unwrap(), Some(expected));
    assert_eq!(session.get("y").unwrap(), None);
    session.set("y", Value::Set(vec![3.into()])).unwrap();
    assert_eq!(session.get("y").unwrap(), Some(Value::Set(vec![3.into()])));
    assert_eq!(run(&session, "print(y, x)"), "{3} (1, {2: 'b'})\n");
    assert_eq!((session.execution().unwrap(), session.history().unwrap().len()), (2, 2));
    assert!(matches!(session.set("not a name", 1), Err(Error::Refused(_))));
}

#[test]
fn what_was_set_survives_suspension_and_forks_and_is_rewound() {
    let session = session("core");
    run(&session, "x = 1");
    session.set("y", 2).unwrap();
    assert!(session.suspend().unwrap());
    assert_eq!(session.get("y").unwrap(), Some(2.into()));
    let fork = session.fork().unwrap();
    assert_eq!(fork.get("y").unwrap(), Some(2.into()));
    session.rewind(1).unwrap();
    assert_eq!(session.get("y").unwrap(), None);
    assert_eq!(fork.get("x").unwrap(), Some(1.into()));
}

#[test]
fn questions_leave_no_trace() {
    let session = session("core");
    run(
        &session,
        "items = [1]\nopen('a.txt', 'w').write('as it was')\nimport random\nrandom.seed(1)",
    );
    let draws = "print(items, open('a.txt').read(), random.random())";
    let reference = session.fork().unwrap();
    for source in [
        "items.append(2) or len(items)",
        "open('a.txt', 'w').write('x')",
        "random.random()",
        "globals().update(items=7)",
        "len(bytearray(1 << 24))",
        "exit()",
        "1/0",
        "__import__('os').environ.update(A='1')",
    ] {
        let _ = evaluate(&session, source);
    }
    assert_eq!(evaluate(&session, "items.append(2) or len(items)"), Ok(Value::Int(2)));
    assert_eq!(evaluate(&session, "'A' in __import__('os').environ"), Ok(Value::Bool(false)));
    assert_eq!(session.read("a.txt").unwrap(), b"as it was");
    let _ = reference;
    assert!(run(&session, draws).starts_with("[1] as it was 0."));
    assert_eq!(session.execution().unwrap(), 2);
}

#[test]
fn a_repeatable_session_repeats_in_spite_of_questions() {
    let start = || {
        let options = SessionOptions::new().image("core").deterministic(Deterministic::new(1));
        let session = runtime().blocking().session(options).unwrap();
        run(&session, "import time, random");
        session
    };
    let (quiet, asked) = (start(), start());
    evaluate(&asked, "(time.time(), random.random())").unwrap();
    assert!(!asked.complete("ti", 2).unwrap().matches.is_empty());
    let code =
        "print(time.time_ns(), time.monotonic_ns(), random.random(), __import__('os').urandom(4))";
    assert_eq!(run(&quiet, code), run(&asked, code));
}

#[test]
fn expressions_have_values_or_errors() {
    let session = session("core");
    run(&session, "x = 20");
    let asked = [("a", "x + 1"), ("b", "y"), ("c", "x +"), ("d", "x = 1"), ("e", "exit()")];
    let asked = asked.iter().map(|(name, source)| ((*name).into(), (*source).into())).collect();
    let found = session.evaluate(asked).unwrap();
    assert_eq!(found["a"], Ok(Value::Int(21)));
    assert_eq!(found["b"], Err("NameError: name 'y' is not defined".into()));
    assert!(found["c"].as_ref().unwrap_err().starts_with("SyntaxError"), "{found:?}");
    assert!(found["d"].is_err() && found["e"].is_err());
}

#[test]
fn names_are_completed() {
    let session = session("core");
    run(
        &session,
        "revenue = [1]\nimport json\nclass Größe:\n    länge = 1\n    _own = 2\ng = Größe()",
    );
    let complete = |code: &str| {
        let found = session.complete(code, code.chars().count()).unwrap();
        (found.start, found.matches)
    };
    assert_eq!(complete("print(reven"), (6, vec!["revenue".into()]));
    assert_eq!(complete("x = revenue.app"), (12, vec!["append".into()]));
    assert_eq!(complete("g."), (2, vec!["länge".into()]));
    assert_eq!(complete("g._o"), (2, vec!["_own".into()]));
    assert_eq!(complete("json.dump"), (5, vec!["dump".into(), "dumps".into()]));
    assert_eq!(complete("from json import du"), (17, vec!["dump".into(), "dumps".into()]));
    assert!(complete("import colle").1.contains(&"collections".into()));
    assert_eq!(complete("f().x").1, Vec::<String>::new());
    assert!(complete("").1.contains(&"revenue".into()));
    assert!(session.complete("rev", 99).unwrap().matches.contains(&"revenue".into()));
}

#[test]
fn objects_are_described() {
    let session = session("core");
    run(&session, "def area(w, h=2):\n    'The area.'\n    return w * h\nx = 3");
    let found = session.inspect("area(1)", 2, true).unwrap().unwrap();
    assert_eq!(found.signature.as_deref(), Some("area(w, h=2)"));
    assert_eq!((found.doc.as_deref(), &found.class[..]), (Some("The area."), "function"));
    let found = session.inspect("area(", 5, false).unwrap().unwrap();
    assert_eq!((&found.name[..], found.source), ("area", None));
    assert_eq!(session.inspect("x", 1, false).unwrap().unwrap().text, "3");
    assert_eq!(session.inspect("nothing", 3, false).unwrap(), None);
}

#[test]
fn code_is_complete_or_not() {
    let session = session("core");
    let cases = [
        ("x = 1", Completeness::Complete),
        (
            "for x in y:",
            Completeness::Incomplete {
                indent: "    ".into(),
            },
        ),
        (
            "for x in y:\n    print(x)",
            Completeness::Incomplete {
                indent: "    ".into(),
            },
        ),
        ("for x in y:\n    print(x)\n", Completeness::Complete),
        (
            "def f():\n    return 1",
            Completeness::Incomplete {
                indent: String::new(),
            },
        ),
        (
            "f(1,",
            Completeness::Incomplete {
                indent: String::new(),
            },
        ),
        (
            "'''abc",
            Completeness::Incomplete {
                indent: String::new(),
            },
        ),
        ("x = = 1", Completeness::Invalid),
        ("await f()", Completeness::Complete),
    ];
    for (code, expected) in cases {
        assert_eq!(session.is_complete(code).unwrap(), expected, "{code:?}");
    }
}

#[test]
fn hostile_objects_neither_hang_nor_break_a_session() {
    let session = session("core");
    run(
        &session,
        "class Trap:\n\
         \x20   def __dir__(self):\n        while True: pass\n\
         \x20   def __getattr__(self, name):\n        raise SystemExit(name)\n\
         \x20   @property\n    def loop(self):\n        while True:\n            \
         try:\n                while True: pass\n            except BaseException: pass\n\
         \x20   @property\n    def end(self):\n        import os; os._exit(3)\n\
         \x20   def __repr__(self): raise KeyboardInterrupt\n\
         trap = Trap()\nkept = 'kept'",
    );
    let began = Instant::now();
    assert!(unanswered(session.complete("trap.", 5)).contains("longer than 1 seconds"));
    assert!(unanswered(session.complete("trap.loop.", 10)).contains("longer than 1 seconds"));
    assert!(unanswered(session.complete("trap.end.", 9)).contains("lost"));
    assert!(session.complete("trap.nothing.", 13).unwrap().matches.is_empty());
    let shown = session.inspect("trap", 2, true).unwrap().unwrap();
    assert_eq!(shown.class, "Trap");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let outcome = session.run(Request::new("print(kept)")).unwrap();
    assert_eq!(
        (&outcome.stdout[..], outcome.session.unwrap().interpreter_restarted),
        ("kept\n", false)
    );
}

#[test]
fn forged_answers_are_refused() {
    let session = session("core");
    run(
        &session,
        "import _host, struct\n\
         class Forger:\n    def __getattr__(self, name):\n        \
         head = b'[[],{\"start\":-1,\"matches\":7}]'\n        \
         _host.call(b'V\\0' + struct.pack('<I', len(head)) + head)\n        _host.call(b'e{}')\n\
         f = Forger()",
    );
    unanswered(session.complete("f.x.", 4));
    assert_eq!(run(&session, "print(1)"), "1\n");
}

#[test]
fn a_value_too_large_for_the_memory_leaves_the_session_as_it_was() {
    let options = SessionOptions::from_request(Request::new("x = 1").memory_mib(16)).image("core");
    let session = runtime().blocking().session(options).unwrap();
    let reason = unanswered(session.set("a", Value::Bytes(vec![0; 64 << 20])));
    assert!(reason.contains("MemoryError"), "{reason}");
    assert_eq!(session.get("x").unwrap(), Some(1.into()));
}

#[test]
fn a_large_table_comes_out_of_a_session() {
    let session = session("data");
    run(
        &session,
        "import numpy as np, pandas as pd\n\
         df = pd.DataFrame(np.arange(4_000_000.0).reshape(-1, 4), columns=list('abcd'))",
    );
    for _ in 0..2 {
        let Some(Value::DataFrame(frame)) = session.get("df").unwrap() else {
            panic!("no table");
        };
        let belljar::value::Storage::Array(column) = &frame.column("d").unwrap().storage else {
            panic!("{frame:?}");
        };
        assert_eq!(column.floats().unwrap().get(999_999), Some(&3_999_999.0));
    }
    session.set("a", Array::of_floats(&[1.0])).unwrap();
    assert_eq!(run(&session, "print(len(df), a.sum())"), "1000000 1.0\n");
}
