//! Round trips through both encodings, and rejected inputs.

use proptest::prelude::*;

use super::*;

const MAX_BYTES: u64 = 1 << 20;

fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn through_json(value: &Value) -> Value {
    let text = serde_json::to_string(value).unwrap();
    read(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn through_wire(value: &Value) -> Value {
    let wire = wire::write(value).unwrap();
    wire::read(&wire, &[], MAX_BYTES).unwrap_or_else(|error| panic!("{error}: {value:?}"))
}

/// Returns a frame with this head.
fn framed(head: &str, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(head.len()).unwrap().to_le_bytes();
    [&length, head.as_bytes(), rest].concat()
}

fn scalars() -> impl Strategy<Value = Value> {
    let zone = prop_oneof![
        Just(None),
        (-86_399..86_400i32).prop_map(|seconds| Some(Zone {
            offset: Some(seconds),
            name: None
        })),
        Just(Some(Zone {
            offset: Some(3600),
            name: Some("Europe/Berlin".into())
        })),
    ];
    let date = (1..10_000u16, 1..13u8, 1..29u8);
    let date = date.prop_map(|(year, month, day)| Date { year, month, day });
    let time = (0..24u8, 0..60u8, 0..60u8, 0..1_000_000u32, any::<bool>(), zone);
    let time = time.prop_map(|(hour, minute, second, microsecond, fold, zone)| Time {
        hour,
        minute,
        second,
        microsecond,
        fold,
        zone,
    });
    prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<i128>()
            .prop_filter("an integer that fits", |number| i64::try_from(*number).is_err())
            .prop_map(|number| Value::BigInt(number.into())),
        any::<f64>().prop_filter("equal to itself", |x| !x.is_nan()).prop_map(Value::Float),
        (-1e300..1e300, Just(f64::INFINITY)).prop_map(|(a, b)| Value::Complex(a, b)),
        any::<String>().prop_map(Value::Str),
        any::<Vec<u8>>().prop_map(Value::Bytes),
        "-?[0-9]{1,30}(\\.[0-9]+)?(E[+-][0-9]{1,3})?".prop_map(Value::Decimal),
        "-?[0-9]{1,30}/[1-9][0-9]{0,9}".prop_map(Value::Fraction),
        date.clone().prop_map(Value::Date),
        time.clone().prop_map(Value::Time),
        (date, time).prop_map(|(date, time)| Value::DateTime(DateTime { date, time })),
        (-999_999_999..1_000_000_000i64, 0..86_400i64, 0..1_000_000i64)
            .prop_map(|(d, s, us)| Value::Timedelta(Timedelta::of(d, s, us).unwrap())),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        any::<String>().prop_map(Value::Path),
        Just(Value::NaT),
        Just(Value::NA),
        any::<i64>().prop_map(|n| Value::Scalar("<M8[ns]".into(), Box::new(Value::Int(n)))),
        any::<i64>().prop_map(|n| Value::Timestamp(n, "us".into(), Some("UTC".into()))),
    ]
}

fn tables() -> impl Strategy<Value = Value> {
    let columns = (0..20usize).prop_flat_map(|rows| {
        let floats = prop::collection::vec(-1e9..1e9f64, rows)
            .prop_map(|numbers| Column::new("float64", Array::of_floats(&numbers)));
        let text = prop::collection::vec(any::<Option<String>>(), rows).prop_map(Column::of_text);
        let masked = prop::collection::vec((any::<i64>(), any::<bool>()), rows).prop_map(|pairs| {
            let (numbers, mask): (Vec<i64>, Vec<bool>) = pairs.into_iter().unzip();
            let bytes = mask.iter().map(|is| u8::from(*is)).collect();
            let mask = Array::of_bytes("|b1", &[mask.len() as u64], bytes);
            Column {
                dtype: "Int64".into(),
                storage: Storage::Masked(Array::of_ints(&numbers), mask),
            }
        });
        let categories = prop::collection::vec(-1..2i8, rows).prop_map(|codes| {
            let bytes = codes.iter().map(|code| code.cast_unsigned()).collect();
            let codes = Array::of_bytes("|i1", &[codes.len() as u64], bytes);
            let categories = Index::labels(Column::of_text([Some("a"), Some("b")]));
            Column {
                dtype: "category".into(),
                storage: Storage::Categories(codes, Box::new(categories), true),
            }
        });
        prop::collection::vec(prop_oneof![floats, text, masked, categories], 1..4)
    });
    columns.prop_map(|columns| {
        let named = columns.into_iter().enumerate();
        let named = named.map(|(at, column)| (format!("c{at}"), column));
        Value::from(DataFrame::new(named).unwrap())
    })
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![4 => scalars(), 1 => tables()].prop_recursive(4, 40, 6, |inner| {
        let some = prop::collection::vec(inner.clone(), 0..6);
        let keys = scalars();
        let pairs = prop::collection::vec((keys, inner), 0..6);
        prop_oneof![
            some.clone().prop_map(Value::List),
            some.prop_map(Value::Tuple),
            prop::collection::vec(scalars(), 0..6).prop_map(Value::Set),
            prop::collection::vec(scalars(), 0..6).prop_map(Value::FrozenSet),
            pairs.prop_map(Value::Dict),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(value in values()) {
        prop_assert_eq!(&through_json(&value), &value);
        prop_assert_eq!(&through_wire(&value), &value);
    }

    #[test]
    fn damaged_frames_are_refused_or_read(
        value in values(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut wire = wire::write(&value).unwrap();
        for (at, byte) in damage {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        let _ = wire::read(&wire, &[1; 64], MAX_BYTES);
        let _ = wire::read(&wire[..cut.index(wire.len())], &[1; 64], MAX_BYTES);
    }
}

#[test]
fn plain_json_stands_for_itself() {
    let text = r#"{"a":[1,-2.5,true,null,"x"],"b":{}}"#;
    assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
}

#[test]
fn a_key_that_looks_like_a_tag_is_escaped() {
    let value = Value::Dict(vec![("$".into(), "tuple".into()), ("items".into(), Value::None)]);
    let text = serde_json::to_string(&value).unwrap();
    assert_eq!(text, r#"{"$":"dict","items":[["$","tuple"],["items",null]]}"#);
    assert_eq!(read(&text).unwrap(), value);
}

#[test]
fn nan_and_infinities_have_names() {
    let text = serde_json::to_string(&Value::Float(f64::NAN)).unwrap();
    assert_eq!(text, r#"{"$":"float","value":"nan"}"#);
    assert!(matches!(read(&text).unwrap(), Value::Float(number) if number.is_nan()));
}

#[test]
fn lies_about_lengths_and_types_are_refused() {
    let cases = [
        r#"{"$":"array","dtype":"<f8","shape":[2],"data":"AAAAAAAAAAA="}"#,
        r#"{"$":"array","dtype":"<f8","shape":[-1],"data":""}"#,
        r#"{"$":"array","dtype":"<f8","shape":[4611686018427387904,8],"data":""}"#,
        r#"{"$":"array","dtype":"|O","shape":[1],"data":"AA=="}"#,
        r#"{"$":"array","dtype":">f8","shape":[0],"data":""}"#,
        r#"{"$":"array","dtype":"<f3","shape":[0],"data":""}"#,
        r#"{"$":"array","dtype":[["a","|O"]],"shape":[0],"data":""}"#,
        r#"{"$":"array","dtype":"<U99999999999999999999","shape":[0],"data":""}"#,
        r#"{"$":"array","dtype":"|O","shape":[2],"items":[1]}"#,
        r#"{"$":"scalar","dtype":"<f8","value":"text"}"#,
        r#"{"$":"scalar","dtype":"","value":1}"#,
        r#"{"$":"decimal","value":"__import__"}"#,
        r#"{"$":"fraction","value":"1/0"}"#,
        r#"{"$":"date","value":"2024-02-30"}"#,
        r#"{"$":"datetime","value":"2024-02-01T25:00:00"}"#,
        r#"{"$":"timedelta","value":[0,86400,0]}"#,
        r#"{"$":"timestamp","value":1,"unit":"fortnights"}"#,
        r#"{"$":"uuid","value":"+0000000000000000000000000000000"}"#,
        r#"{"$":"int","value":"0xz"}"#,
        r#"{"$":"pickle","value":"x"}"#,
        r#"{"$":"tuple"}"#,
        r#"{"$":"tuple","items":[],"more":1}"#,
        r#"{"$":1}"#,
        r#"{"$":"bytes","data":0}"#,
        r#"{"$":"index","range":[0,9,0],"name":null}"#,
        r#"{"$":"series","name":null,"index":{"$":"index","range":[0,2,1],"name":null},
            "values":{"dtype":"str","text":["a"]}}"#,
        r#"{"$":"series","name":null,"index":{"$":"index","range":[0,1,1],"name":null},
            "values":{"dtype":"str","text":[1]}}"#,
        r#"{"$":"categorical","values":{"dtype":"category","ordered":false,
            "codes":{"$":"array","dtype":"|i1","shape":[1],"data":"Ag=="},
            "categories":{"$":"index","labels":{"dtype":"str","text":["a"]},"name":null}}}"#,
    ];
    for text in cases {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn buffers_are_where_they_are_said_to_be() {
    let memory: Vec<u8> = (0..64).collect();
    let read = |head: &str| wire::read(&framed(head, b"beside"), &memory, 40);
    assert_eq!(read(r#"[[[0,2,3,1,0]],{"$":"bytes","data":0}]"#), Ok(Value::Bytes(b"sid".into())));
    let apart = Value::Bytes(vec![1, 2, 9, 10, 17, 18]);
    assert_eq!(read(r#"[[[1,1,2,3,8]],{"$":"bytes","data":0}]"#), Ok(apart));
    assert_eq!(read(r#"[[[1,0,4,2,60]],{"$":"bytes","data":0}]"#).unwrap().clone(), {
        Value::Bytes(vec![0, 1, 2, 3, 60, 61, 62, 63])
    });
    let refused = [
        r#"[[[0,0,7,1,0]],{"$":"bytes","data":0}]"#,
        r#"[[[1,63,2,1,0]],{"$":"bytes","data":0}]"#,
        r#"[[[1,18446744073709551615,2,1,0]],{"$":"bytes","data":0}]"#,
        r#"[[[1,0,1,18446744073709551615,18446744073709551615]],{"$":"bytes","data":0}]"#,
        r#"[[[1,0,1,41,0]],{"$":"bytes","data":0}]"#,
        r"[[[1,0,30,1,0],[1,0,30,1,0]],1]",
        r"[[[2,0,1,1,0]],1]",
        r"[[[0,-1,1,1,0]],1]",
        r"[[[0,0,1,1]],1]",
        r#"[[[0,0,1,1,0]],[{"$":"bytes","data":0},{"$":"bytes","data":0}]]"#,
        r#"[[],{"$":"bytes","data":0}]"#,
        r#"[[],{"$":"bytes","data":"AA=="}]"#,
        r"[[],1,2]",
        r"[[]]",
        "[[],1]]",
    ];
    for head in refused {
        assert!(read(head).is_err(), "{head}");
    }
    // Empty pieces take no bytes, however many there are.
    let none = r#"[[[1,0,0,18446744073709551615,1]],{"$":"bytes","data":0}]"#;
    assert_eq!(read(none), Ok(Value::Bytes(Vec::new())));
    assert!(wire::read(&[255, 255, 255, 255, b'1'], &memory, 40).is_err());
}

#[test]
fn what_is_deep_or_long_is_refused_while_it_is_read() {
    let deep = format!("[[],{}{}]", "[".repeat(200), "]".repeat(200));
    assert!(wire::read(&framed(&deep, b""), &[], 0).is_err());
    let long = format!("[[],[{}0]]", "0,".repeat(limits::MAX_TYPED_NODES));
    assert!(wire::read(&framed(&long, b""), &[], 0).is_err());
}

#[test]
fn what_a_guest_cannot_take_is_refused() {
    let mut deep = Value::None;
    for _ in 0..40 {
        deep = Value::Tuple(vec![deep]);
    }
    let list = Value::List(Vec::new());
    let refused = [
        deep,
        Value::Dict(vec![(list.clone(), Value::None)]),
        Value::Set(vec![Value::Tuple(vec![list])]),
        Value::Opaque(Box::new(Opaque::new("a.B", "<b>"))),
        Value::Decimal("1; drop".into()),
        Value::from(Array::of_bytes("<f8", &[3], vec![0; 8])),
    ];
    for value in refused {
        assert!(value.check().is_err() && wire::write(&value).is_err(), "{value:?}");
    }
}

#[test]
fn integers_of_any_size_are_what_they_were() {
    for number in [i128::MIN, -1, 0, 255, 1 << 100, i128::MAX] {
        let big = BigInt::from(number);
        assert_eq!(big.to_i128(), Some(number));
        assert_eq!(BigInt::parse(&big.to_string()), Some(big));
    }
    assert_eq!(BigInt::parse("-0x0"), Some(BigInt::from(0i128)));
    assert_eq!(BigInt::new(true, &[1; 17]).to_i128(), None);
}

#[test]
fn columns_are_found_by_name() {
    let frame = DataFrame::new([("x", Column::new("int64", Array::of_ints(&[1, 2])))]).unwrap();
    let column = frame.column("x").unwrap();
    assert!(matches!(&column.storage, Storage::Array(array) if array.ints() == Some(vec![1, 2])));
    let unequal = [("a", Column::of_text([Some("b")])), ("c", Column::of_text([None::<&str>; 2]))];
    assert!(DataFrame::new(unequal).is_err());
}
