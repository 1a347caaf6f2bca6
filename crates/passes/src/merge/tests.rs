use wasmtime::{Engine, Instance, Module, Store, Trap, Val};

use super::*;

/// Calls each exported function with the numbers from 0 to 3 as parameters.
fn run(module: &[u8]) -> Vec<Result<String, Option<Trap>>> {
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let module = Module::new(&engine, module).unwrap();
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    let names: Vec<_> = module.exports().map(|export| export.name().to_owned()).collect();
    let mut results = Vec::new();
    for name in &names {
        let Some(function) = instance.get_func(&mut store, name) else {
            continue;
        };
        let ty = function.ty(&store);
        for number in 0..4 {
            let parameters = vec![Val::I32(number); ty.params().len()];
            let mut result = vec![Val::I32(0); ty.results().len()];
            let called = function.call(&mut store, &parameters, &mut result);
            let result = called.map(|()| format!("{name}({number}) = {result:?}"));
            results.push(result.map_err(|e| e.downcast_ref().copied()));
        }
    }
    results
}

fn functions(module: &[u8]) -> usize {
    input::Input::parse(module).unwrap().functions.len()
}

/// Merges a module, and compares both. Returns the number of functions before and after.
fn merged(text: &str) -> (usize, usize) {
    let module = wat::parse_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let merged = apply(&module).unwrap_or_else(|e| panic!("{text}: {e}"));
    wasmparser::validate(&merged).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(run(&module), run(&merged), "{text}");
    assert_eq!(apply(&merged).unwrap(), merged, "{text}: nothing is left to merge");
    (functions(&module), functions(&merged))
}

/// A module whose export `f` calls `$a`, `$b` and `$c`, which have one parameter and a result.
fn calling(functions: &str) -> String {
    format!(
        r#"(module
            (func (export "f") (param i32) (result i32)
                (i32.add (call $a (local.get 0))
                    (i32.mul (i32.const 3)
                        (i32.add (call $b (local.get 0))
                            (i32.mul (i32.const 5) (call $c (local.get 0)))))))
            {functions})"#
    )
}

#[test]
fn equal_functions_become_one() {
    let text = calling(
        "(func $a (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
         (func $b (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
         (func $c (param i32) (result i32) (i32.add (local.get 0) (i32.const 2)))",
    );
    assert_eq!(merged(&text), (4, 3));
}

/// Types, locals, and the order of calls differ.
#[test]
fn other_functions_stay() {
    let text = calling(
        "(func $a (param i32) (result i32) (local i32) (local.get 1))
         (func $b (param i32) (result i32) (local i32 i32) (local.get 1))
         (func $c (param i32) (result i32) (drop (call $wide (i64.const 1)))
            (i32.sub (call $first) (call $second)))
         (func $wide (param i64) (result i32) (local i32) (local.get 1))
         (func $first (result i32) (i32.sub (call $one) (call $two)))
         (func $second (result i32) (i32.sub (call $two) (call $one)))
         (func $one (result i32) (i32.const 1))
         (func $two (result i32) (i32.const 2))",
    );
    assert_eq!(merged(&text), (9, 9));
}

#[test]
fn callers_of_equal_functions_are_equal() {
    let text = calling(
        "(func $a (param i32) (result i32) (i32.mul (call $a1 (local.get 0)) (i32.const 3)))
         (func $a1 (param i32) (result i32) (i32.sub (call $a2 (local.get 0)) (i32.const 7)))
         (func $b (param i32) (result i32) (i32.mul (call $b1 (local.get 0)) (i32.const 3)))
         (func $c2 (param i32) (result i32) (i32.xor (local.get 0) (i32.const 9)))
         (func $a2 (param i32) (result i32) (i32.xor (local.get 0) (i32.const 9)))
         (func $b2 (param i32) (result i32) (i32.xor (local.get 0) (i32.const 9)))
         (func $b1 (param i32) (result i32) (i32.sub (call $b2 (local.get 0)) (i32.const 7)))
         (func $c1 (param i32) (result i32) (i32.sub (call $c2 (local.get 0)) (i32.const 7)))
         (func $c (param i32) (result i32) (i32.mul (call $c1 (local.get 0)) (i32.const 3)))",
    );
    assert_eq!(merged(&text), (10, 4));
}

/// The meter chooses one function of each cycle, by its place in the module.
#[test]
fn functions_of_cycles_stay() {
    let even = |a, b| {
        format!(
            "(func ${a} (param i32) (result i32)
                (if (result i32) (local.get 0)
                    (then (call ${b} (i32.sub (local.get 0) (i32.const 1))))
                    (else (i32.const 4))))"
        )
    };
    // Each calls itself; they call each other; `$a` and `$b` call `$a`.
    for cycles in [
        [("a", "a"), ("b", "b"), ("c", "c")],
        [("a", "b"), ("b", "c"), ("c", "a")],
        [("a", "b"), ("b", "a"), ("c", "c")],
    ] {
        let functions = cycles.map(|(a, b)| even(a, b));
        assert_eq!(merged(&calling(&functions.concat())), (4, 4), "{cycles:?}");
    }
    // Only `$a` is part of a cycle.
    let functions = [("a", "a"), ("b", "a"), ("c", "a")].map(|(a, b)| even(a, b));
    assert_eq!(merged(&calling(&functions.concat())), (4, 3));
    // Functions that call functions of a cycle are not part of it.
    let text = calling(&format!(
        "{} (func $a (param i32) (result i32) (call $even (local.get 0)))
         (func $b (param i32) (result i32) (call $even (local.get 0)))
         (func $c (param i32) (result i32) (call $odd (local.get 0)))",
        even("even", "odd") + &even("odd", "even")
    ));
    assert_eq!(merged(&text), (6, 5));
}

#[test]
fn slots_keep_their_numbers() {
    let text = r#"(module
        (type $f (func (param i32) (result i32)))
        (type $g (func (result i32)))
        (table 8 funcref)
        (elem (i32.const 1) $a $b)
        (elem (i32.const 4) $other $b $c $a)
        (func $a (type $f) (i32.const 7))
        (func $unused)
        (func $b (type $f) (i32.const 7))
        (func $c (type $f) (i32.const 8))
        (func $other (type $g) (i32.const 7))
        (func (export "low") (param i32) (result i32)
            (call_indirect (type $f) (local.get 0) (local.get 0)))
        (func (export "high") (param i32) (result i32)
            (call_indirect (type $f) (local.get 0) (i32.add (local.get 0) (i32.const 4)))))"#;
    assert_eq!(merged(text), (7, 5));
}

/// The meter chooses some functions because they are in the table. Smaller tiers may lack these and
/// have equal functions that are not in the table.
#[test]
fn functions_in_the_table_are_merged_with_such() {
    let text = calling(
        "(type $f (func (param i32) (result i32)))
         (table 4 funcref)
         (elem (i32.const 0) $b $c)
         (func $a (type $f) (i32.div_u (i32.const 9) (local.get 0)))
         (func $b (type $f) (i32.div_u (i32.const 9) (local.get 0)))
         (func $c (type $f) (i32.div_u (i32.const 9) (local.get 0)))",
    );
    assert_eq!(merged(&text), (4, 3));
}

#[test]
fn exports_refer_to_the_function_that_stays() {
    let text = r#"(module
        (func (export "a") (result i32) (i32.const 1))
        (func (export "b") (result i32) (i32.const 1))
        (func $c (result i32) (i32.const 1))
        (func (export "link:d") (result i32) (i32.const 1))
        (func (export "link:e") (result i32) (i32.const 1))
        (func (export "f") (result i32) (call $c)))"#;
    // Those of the host, and those that only extensions call or the module itself.
    assert_eq!(merged(text), (6, 3));
}

#[test]
fn types_are_equal_by_content() {
    let text = r#"(module
        (type $f (func (param i32) (result i32)))
        (type $g (func (param i32) (result i32)))
        (table 2 funcref)
        (elem (i32.const 0) $a $b)
        (func $a (type $f) (i32.const 1))
        (func $b (type $g) (i32.const 1))
        (func (export "f") (param i32) (result i32)
            (call_indirect (type $f) (local.get 0) (local.get 0)))
        (func (export "g") (param i32) (result i32)
            (call_indirect (type $g) (local.get 0) (local.get 0))))"#;
    assert_eq!(merged(text), (4, 3));
}

#[test]
fn functions_that_cannot_be_called_are_removed() {
    let text = r#"(module
        (import "" "" (func $imported)) (export "imported" (func $imported))
        (global funcref (ref.func $constant))
        (elem declare func $referenced)
        (func $dead (call $imported) (call $of_dead))
        (func $of_dead (call $dead))
        (func $constant)
        (func $referenced (nop))
        (func $called (call $imported))
        (func (export "f") (drop (ref.func $referenced)) (call $called)))"#;
    let merged = apply(&wat::parse_str(text).unwrap()).unwrap();
    wasmparser::validate(&merged).unwrap();
    assert_eq!(functions(&merged), 4);
}

#[test]
fn unknown_parts_are_refused() {
    for (text, expected) in [
        ("(module (func $f) (start $f))", "it has a start function"),
        ("(module (func $f (return_call $f)))", "it has tail calls"),
        (
            r#"(module (func (param i32) (@metadata.code.branch_hint "\00")
                (if (local.get 0) (then))))"#,
            "it has hints at places in its code",
        ),
    ] {
        let error = apply(&wat::parse_str(text).unwrap()).unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}
