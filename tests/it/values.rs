//! Typed values: passed to runs, returned by them, and forged by guests.

use belljar::outcome::ErrorKind;
use belljar::request::{Capture, Field};
use belljar::value::{Array, Column, DataFrame, Index, Omission, Storage, Value};
use belljar::{Outcome, Request};

use crate::support::{failed, run, still_serves, succeeded};

/// The outcome of code whose result is typed.
#[track_caller]
fn typed(request: Request) -> Outcome {
    run(request.capture(Capture::default().typed(true))).outcome
}

/// The typed result of code.
#[track_caller]
fn value_of(code: &str) -> Value {
    let outcome = typed(Request::new(code));
    succeeded(&outcome);
    assert_eq!((&outcome.result, &outcome.truncated[..]), (&serde_json::Value::Null, &[][..]));
    outcome.typed.expect("it was asked for")
}

#[test]
fn a_result_keeps_its_types() {
    let found = value_of("result = [(1, 'a'), {2: b'x'}, 2**70, {3.5}, None]");
    let expected = Value::List(vec![
        Value::Tuple(vec![1.into(), "a".into()]),
        Value::Dict(vec![(2.into(), Value::Bytes(b"x".into()))]),
        Value::BigInt((1i128 << 70).into()),
        Value::Set(vec![3.5.into()]),
        Value::None,
    ]);
    assert_eq!(found, expected);
}

#[test]
fn without_a_result_it_is_none_and_without_being_asked_for_nothing() {
    assert_eq!(value_of("x = 1"), Value::None);
    let outcome = run(Request::new("result = (1,)")).outcome;
    assert_eq!((outcome.typed, outcome.result), (None, serde_json::json!([1])));
}

#[test]
fn the_outcome_as_json_has_the_tagged_form() {
    let outcome =
        typed(Request::new("import datetime\nresult = {'d': datetime.date(2024, 2, 29)}"));
    let json = serde_json::to_value(&outcome).unwrap();
    let expected = serde_json::json!({"d": {"$": "date", "value": "2024-02-29"}});
    assert_eq!(json["typed"], expected);
    assert_eq!(serde_json::from_value::<Outcome>(json).unwrap(), outcome);
}

#[test]
fn tables_come_as_they_are() {
    let found = value_of(
        "import numpy as np, pandas as pd\n\
         m = np.arange(20_000.0).reshape(5_000, 4)\n\
         df = pd.DataFrame(m, columns=list('abcd'))\n\
         df['text'] = ['ß', None] * 2_500\n\
         df['whole'] = pd.array([1, None] * 2_500, dtype='Int64')\n\
         result = df",
    );
    let Value::DataFrame(frame) = found else {
        panic!("{found:?}");
    };
    assert_eq!(frame.index, Index::numbers(5_000));
    let column = |name| &frame.column(name).unwrap().storage;
    let Storage::Array(numbers) = column("b") else {
        panic!("{frame:?}");
    };
    // The columns of a matrix are not contiguous in the guest's memory.
    let expected: Vec<f64> = (0..5_000).map(|row| f64::from(row * 4 + 1)).collect();
    assert_eq!(numbers.floats().unwrap(), expected);
    let Storage::Text(text) = column("text") else {
        panic!("{frame:?}");
    };
    assert_eq!((text.len(), text.get(0), text.get(1)), (5_000, Some("ß"), None));
    let Storage::Masked(_, mask) = column("whole") else {
        panic!("{frame:?}");
    };
    assert_eq!(&mask.bytes().unwrap()[..4], [0, 1, 0, 1]);
}

#[test]
fn variables_are_there_before_the_code() {
    let frame = DataFrame::new([
        ("n", Column::new("int64", Array::of_ints(&[1, 2, 3]))),
        ("t", Column::of_text([Some("x"), None, Some("ß")])),
    ]);
    let request = Request::new(
        "assert type(pair) is tuple and pair == (1, 'a'), pair\n\
         assert keys == {1: {2}}, keys\n\
         a[0] = 9.0\n\
         assert a.sum() == 11.5\n\
         assert df['n'].sum() == 6 and df['t'].isna().tolist() == [False, True, False]\n\
         result = (df, a, pair)",
    )
    .set("pair", Value::Tuple(vec![1.into(), "a".into()]))
    .set("keys", Value::Dict(vec![(1.into(), Value::Set(vec![2.into()]))]))
    .set("a", Array::of_floats(&[1.0, 2.5]))
    .set("df", frame.clone().unwrap());
    let outcome = typed(request.image("data"));
    succeeded(&outcome);
    let Some(Value::Tuple(parts)) = outcome.typed else {
        panic!("{outcome:#?}");
    };
    assert_eq!(parts[0], Value::from(frame.unwrap()));
    assert_eq!(parts[1], Value::from(Array::of_floats(&[9.0, 2.5])));
}

#[test]
fn variables_that_cannot_be_set_are_refused_together() {
    let list = Value::List(Vec::new());
    let request = Request::new("1")
        .set("class", 1)
        .set("a b", 1)
        .set("__name__", 1)
        .set("d", Value::Dict(vec![(list, Value::None)]))
        .set("fine", 1)
        .capture(Capture::default().typed_bytes(u32::MAX));
    let error = crate::caches::runtime().blocking().run(request).unwrap_err();
    let belljar::Error::Refused(refusal) = error else {
        panic!("{error}");
    };
    let fields: Vec<Field> = refusal.reasons.iter().map(|reason| reason.field).collect();
    assert_eq!(fields.iter().filter(|field| **field == Field::Variables).count(), 4, "{refusal}");
    assert!(fields.contains(&Field::TypedBytes));
}

#[test]
fn a_value_without_memory_for_it_is_a_memory_error() {
    let request = Request::new("print(len(a))")
        .set("a", Array::of_floats(&vec![0.0; 4 << 20]))
        .memory_mib(16);
    failed(&run(request).outcome, ErrorKind::Memory);
}

#[test]
fn what_is_too_large_is_left_out_and_said_so() {
    let request = Request::new("import numpy as np\nresult = [1, np.zeros(1 << 17)]");
    let capture = Capture::default().typed(true).typed_bytes(1 << 20);
    let whole = run(request.clone().capture(capture.clone())).outcome;
    assert!(whole.truncated.is_empty());
    let outcome = run(request.capture(capture.typed_bytes((1 << 20) - 1))).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.truncated, [belljar::outcome::Truncated::Result]);
    let Some(Value::List(items)) = outcome.typed else {
        panic!("{outcome:#?}");
    };
    let Value::Opaque(left_out) = &items[1] else {
        panic!("{items:?}");
    };
    assert_eq!(left_out.reason, Some(Omission::Large));
}

#[test]
fn objects_that_lie_cost_only_themselves() {
    let found = value_of(
        "import numpy as np\n\
         class Loud(dict):\n    def items(self): raise SystemExit\n\
         class Broken:\n    def __repr__(self): raise KeyboardInterrupt\n\
         class Array(np.ndarray):\n    shape = (10**9,)\n    nbytes = 1\n\
         circle = []\ncircle.append(circle)\n\
         deep = []\nfor _ in range(10_000): deep = [deep]\n\
         result = [Loud(a=1), np.arange(3).view(Array), Broken(), 7]",
    );
    let Value::List(items) = found else {
        panic!("{found:?}");
    };
    assert_eq!(items[0], Value::Dict(vec![("a".into(), 1.into())]));
    assert!(matches!(&items[1], Value::Array(array) if array.shape == [3]), "{items:?}");
    assert!(matches!(&items[2], Value::Opaque(broken) if broken.repr.contains("unreadable")));
    assert_eq!(items[3], Value::Int(7));
}

/// Frames that the runner never sends: addresses outside of memory, wrong lengths, floods.
#[test]
fn forged_values_are_refused() {
    let forged = [
        r#"[[[1,4294967295,9,1,0]],{"$":"bytes","data":0}]"#,
        r#"[[[1,0,4294967295,1,0]],{"$":"bytes","data":0}]"#,
        r#"[[[1,0,1,18446744073709551615,1]],{"$":"bytes","data":0}]"#,
        r#"[[[0,0,8,1,0]],{"$":"array","dtype":"<f8","shape":[1000000000],"data":0}]"#,
        r#"[[],{"$":"array","dtype":"|O","shape":[1],"items":[]}]"#,
        r#"[[],{"$":"pickle"}]"#,
    ];
    for head in forged {
        let code = format!(
            "import _host, struct\n\
             head = {head:?}.encode()\n\
             for payload in (head, head[:-1], b'', head + b' ' * 100_000):\n    \
                 try:\n        _host.call(b'V\\0' + struct.pack('<I', len(payload)) + payload)\n    \
                 except Exception:\n        continue\n    \
                 print('taken')\n\
             result = 5"
        );
        let outcome = typed(Request::new(code));
        succeeded(&outcome);
        assert_eq!((&outcome.stdout[..], outcome.typed), ("", Some(Value::Int(5))), "{head}");
    }
    still_serves();
}

#[test]
fn a_value_that_nobody_asked_for_is_a_forgery() {
    let code = "import _host\ntry:\n    _host.call(b'V\\0\\x05\\0\\0\\0[[],1]')\nexcept Exception:\n    pass";
    failed(&run(Request::new(code)).outcome, ErrorKind::Crash);
    let code = "import _host\ntry:\n    _host.call(b'G')\nexcept Exception:\n    pass";
    failed(&run(Request::new(code)).outcome, ErrorKind::Crash);
}
