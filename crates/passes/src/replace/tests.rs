use wasmtime::{Engine, Instance, Module, Store};

use super::*;

/// A module with functions named `$twice`, `$inc` and `$apply`, which has `$twice` in its table.
const MODULE: &str = r#"(module
    (type $one (func (param i32) (result i32)))
    (table 2 funcref) (elem (i32.const 1) $twice)
    (memory (export "memory") 1)
    (data (i32.const 7) "x")
    (func $twice (export "twice") (type $one) (i32.mul (local.get 0) (i32.const 2)))
    (func $inc (export "inc") (type $one) (i32.add (local.get 0) (i32.const 1)))
    (func $apply (export "apply") (type $one)
        (call_indirect (type $one) (call $inc (local.get 0)) (i32.const 1))))"#;

fn module() -> Vec<u8> {
    wat::parse_str(MODULE).unwrap()
}

/// Replaces functions of [`MODULE`] by those of one file.
fn replaced(text: &str) -> Vec<u8> {
    let module = apply_file(&module(), text).unwrap();
    wasmparser::validate(&module).unwrap();
    module
}

fn named<'a>(name: &'a str, text: &'a str) -> Source<'a> {
    Source {
        name,
        text,
        words: &[],
    }
}

/// Calls exports of a module one after the other.
fn call(module: &[u8], calls: &[(&str, i32)]) -> Vec<i32> {
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let module = Module::new(&engine, module).unwrap();
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    let mut call = |name: &str, value: i32| {
        let function = instance.get_typed_func::<i32, i32>(&mut store, name).unwrap();
        function.call(&mut store, value).unwrap()
    };
    calls.iter().map(|(name, value)| call(name, *value)).collect()
}

/// Returns the causes of an error, joined.
fn told(error: &PassError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn a_function_gets_another_body() {
    let calls = [("twice", 5), ("inc", 5), ("apply", 5)];
    assert_eq!(call(&module(), &calls), [10, 6, 12]);
    let module = replaced(
        r#"(module
            (import "module" "inc" (func $inc (param i32) (result i32)))
            (global $ten i32 (i32.const 10))
            (func $tenfold (param i32) (result i32) (i32.mul (local.get 0) (global.get $ten)))
            (func (export "twice") (param i32) (result i32)
                (call $tenfold (call $inc (local.get 0)))))"#,
    );
    assert_eq!(call(&module, &calls), [60, 6, 70]);
    let input = Input::parse(&module).unwrap();
    let names: Vec<_> = input.defined().map(|index| input.name(index)).collect();
    assert_eq!(names, ["twice", "inc", "apply", "file.tenfold"]);
    assert_eq!(input.slots[&1], 0);
}

#[test]
fn the_old_body_can_be_called() {
    let module = replaced(
        r#"(module
            (import "original" "twice" (func $old (param i32) (result i32)))
            (func (export "twice") (param i32) (result i32)
                (i32.sub (call $old (local.get 0)) (i32.const 1))))"#,
    );
    assert_eq!(call(&module, &[("twice", 5), ("apply", 5)]), [9, 11]);
    let input = Input::parse(&module).unwrap();
    assert_eq!(input.name(3), "twice (original)");
}

#[test]
fn calls_within_a_file_reach_the_replaced_functions() {
    let module = replaced(
        r#"(module
            (func $f (export "twice") (param i32) (result i32)
                (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 1))
                    (else (i32.mul (local.get 0)
                        (call $f (i32.sub (local.get 0) (i32.const 1)))))))
            (func (export "inc") (param i32) (result i32) (call $f (i32.const 4))))"#,
    );
    assert_eq!(call(&module, &[("twice", 5), ("inc", 0)]), [120, 24]);
}

#[test]
fn states_are_zero_and_apart() {
    let file = r#"(module
        (import "env" "memory" (memory 0))
        (import "state" "5" (global $a i32)) (import "state" "100" (global $b i32))
        (func (export "twice") (param i32) (result i32)
            (i32.store (global.get $a) (i32.add (i32.load (global.get $a)) (local.get 0)))
            (i32.load (global.get $a)))
        (func (export "inc") (param i32) (result i32) (i32.load offset=96 (global.get $b)))
        (func (export "apply") (param i32) (result i32)
            (i32.add (i32.shl (global.get $a) (i32.const 8))
                (i32.sub (global.get $b) (global.get $a)))))"#;
    let calls = [("twice", 3), ("twice", 4), ("inc", 0), ("apply", 0)];
    assert_eq!(call(&replaced(file), &calls), [3, 7, 0, (0x10000 << 8) + 64]);
    let memory = wat::parse_str("(module (memory 1 1) (func))").unwrap();
    assert!(told(&apply_file(&memory, file).unwrap_err()).contains("missing"));
    for size in ["65537", "65480"] {
        let file = file.replace("100", size);
        let error = told(&apply_file(&module(), &file).unwrap_err());
        assert!(error.contains("more state than"), "{error}");
    }
    let full = wat::parse_str(MODULE.replace(r#""memory") 1"#, r#""memory") 1 1"#)).unwrap();
    assert!(told(&apply_file(&full, file).unwrap_err()).contains("cannot grow"));
}

#[test]
fn missing_types_are_added() {
    let module = replaced(
        r#"(module
            (func $wide (param v128) (result i64 f64)
                (i64x2.extract_lane 1 (local.get 0)) (f64.const 1))
            (func (export "inc") (param i32) (result i32)
                (call $wide (i64x2.splat (i64.extend_i32_u (local.get 0))))
                (drop) (i32.wrap_i64)))"#,
    );
    assert_eq!(call(&module, &[("inc", 7)]), [7]);
}

#[test]
fn what_functions_cannot_have_is_refused() {
    let f = r#"(func (export "twice") (param i32) (result i32) local.get 0)"#;
    for (parts, why) in [
        ("(memory 1)", "a section of its own"),
        (r#"(import "env" "memory" (memory 1))"#, "imports something"),
        (r#"(import "env" "memory" (memory 0 9))"#, "imports something"),
        (r#"(import "env" "other" (memory 0))"#, "imports something"),
        (r#"(import "env" "memory" (memory 0)) (data (i32.const 0) "x")"#, "a section of its own"),
        ("(table 1 funcref)", "a section of its own"),
        (r#"(import "env" "table" (table 0 funcref))"#, "imports something"),
        ("(global (mut i32) (i32.const 0))", "a global that may change"),
        (r#"(import "env" "g" (global i32))"#, "imports something"),
        (r#"(import "state" "8" (global (mut i32)))"#, "imports something"),
        (r#"(import "state" "8" (global i64))"#, "an invalid size"),
        (r#"(import "state" "-8" (global i32))"#, "an invalid size"),
        (r#"(import "belljar" "refuel" (func (result i64)))"#, "imports something"),
        (r#"(import "module" "none" (func))"#, "function none of the Python module"),
        (r#"(import "module" "inc" (func))"#, "has another type"),
        (
            r#"(import "original" "inc" (func (param i32) (result i32)))"#,
            "an original function that it does not replace",
        ),
        ("(func $s) (start $s)", "a section of its own"),
        ("(tag $t)", "a section of its own"),
        (r#"(global (export "g") i32 (i32.const 0))"#, "exports something"),
        (
            r#"(func (export "inc") (import "module" "inc") (param i32) (result i32))"#,
            "exports something",
        ),
        (r#"(func (export "inc"))"#, "has another type"),
        (r#"(func (export "none"))"#, "is missing"),
        (
            "(func (param v128) (result v128) (i32x4.relaxed_trunc_f32x4_s (local.get 0)))",
            "not valid",
        ),
        ("(func return_call 0)", "not valid"),
        ("(func (param funcref))", "not valid"),
        ("(func (call_indirect (i32.const 0)))", "not valid"),
        ("(func i32.add)", "not valid"),
        ("(func", "cannot be parsed"),
    ] {
        // Imports come first.
        let text = format!("(module {parts} {f})");
        let error = apply_file(&module(), &text).expect_err(parts);
        assert!(told(&error).contains(why), "{parts}: {}", told(&error));
    }
    let empty = told(&apply_file(&module(), "(module)").unwrap_err());
    assert!(empty.contains("replaces no function"), "{empty}");
    let two = MODULE.replace("$inc (export", "$inc1 (@name \"twice\") (export");
    let two = wat::parse_str(two.replace("call $inc", "call $inc1")).unwrap();
    let two = told(&apply_file(&two, &format!("(module {f})")).unwrap_err());
    assert!(two.contains("not the only one"), "{two}");
}

#[test]
fn only_the_pinned_code_is_replaced() {
    let files =
        [named("a", r#"(module (func (export "twice") (param i32) (result i32) local.get 0))"#)];
    let hash = |module: &[u8]| match replace(module, &files, 0, Some(&HashMap::new()), true)
        .unwrap_err()
    {
        PassError::Replace(ReplaceError::Changed { hash, .. }) => hash,
        error => panic!("{error}"),
    };
    let pinned = hash(&module());
    let pins = HashMap::from([("twice", pinned)]);
    replace(&module(), &files, 0, Some(&pins), true).unwrap();
    let changed = wat::parse_str(MODULE.replace("i32.const 2)", "i32.const 3)")).unwrap();
    assert_ne!(hash(&changed), pinned);
    assert!(replace(&changed, &files, 0, Some(&pins), true).is_err());
}

#[test]
fn a_tier_without_the_functions_skips_the_file() {
    let here = r#"(module (func (export "inc") (param i32) (result i32) i32.const 3))"#;
    let gone = r#"(module (import "state" "8" (global $s i32))
        (func (export "gone") (param i32) (result i32) global.get $s))"#;
    let both = r#"(module (func (export "gone") (param i32) (result i32) i32.const 1)
        (func (export "twice") (param i32) (result i32) i32.const 2))"#;
    let state = r#"(module (import "state" "8" (global $s i32))
        (func (export "twice") (param i32) (result i32) global.get $s))"#;
    let files = [named("gone", gone), named("here", here), named("state", state)];
    let module = replace(&module(), &files, 1, None, false).unwrap();
    // The state has the same address on every tier.
    assert_eq!(call(&module, &[("inc", 9), ("twice", 9)]), [3, 0x10000 + 64]);
    for (files, is_complete) in [(files.as_slice(), true), (&[named("both", both)], false)] {
        let error = replace(&self::module(), files, 1, None, is_complete).unwrap_err();
        assert!(told(&error).contains("function gone of the Python module"), "{error}");
    }
}

#[test]
fn a_function_is_replaced_once() {
    let file = r#"(module (func (export "inc") (param i32) (result i32) i32.const 3))"#;
    let error =
        replace(&module(), &[named("a", file), named("b", file)], 0, None, true).unwrap_err();
    assert!(told(&error).contains("replaced twice"), "{error}");
}

#[test]
fn the_files_are_parsed_and_pinned() {
    let mut replaced = Vec::new();
    for source in FILES {
        let binary = wat::parse_str(source.text()).unwrap();
        let file = File::parse(source.name, &binary).unwrap();
        replaced.extend(file.exports.iter().map(|(name, _)| (*name).to_owned()));
    }
    let lines = PINS.lines().filter(|line| !line.starts_with('#'));
    let mut pinned: Vec<_> = lines.map(|line| line[17..].to_owned()).collect();
    pinned.sort();
    replaced.sort();
    assert_eq!(replaced, pinned);
}
