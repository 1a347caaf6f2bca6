use wasmtime::{Config, Engine, Extern, Instance, Module, Store, Trap, V128, Val};

use super::*;

/// The effects of calling a module's exports: results or traps, globals and memory.
type Left = (Vec<Result<Vec<String>, Option<Trap>>>, Vec<String>, Vec<u8>);

/// Calls each exported function twice.
fn run(module: &[u8]) -> Left {
    let mut config = Config::new();
    config.wasm_exceptions(true).gc_heap_reservation(0).gc_heap_guard_size(0);
    let engine = Engine::new(&config).unwrap();
    let mut store = Store::new(&engine, ());
    let module = Module::new(&engine, module).unwrap();
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    let mut names: Vec<_> = module.exports().map(|export| export.name().to_owned()).collect();
    names.sort();
    let (mut calls, mut globals, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..2 {
        for name in &names {
            match instance.get_export(&mut store, name).unwrap() {
                Extern::Func(function) => {
                    let ty = function.ty(&store);
                    let parameters: Vec<Val> =
                        ty.params().zip(round + 5..).map(|(ty, at)| value(&ty, at)).collect();
                    let mut results = vec![Val::I32(0); ty.results().len()];
                    let called = function.call(&mut store, &parameters, &mut results);
                    let results = results.iter().map(|value| format!("{value:?}")).collect();
                    calls.push(called.map(|()| results).map_err(|e| e.downcast_ref().copied()));
                }
                Extern::Global(global) => globals.push(format!("{:?}", global.get(&mut store))),
                Extern::Memory(found) => memory = found.data(&store).to_vec(),
                _ => {}
            }
        }
    }
    (calls, globals, memory)
}

fn value(ty: &wasmtime::ValType, number: i32) -> Val {
    match ty {
        wasmtime::ValType::I64 => Val::I64(number.into()),
        wasmtime::ValType::F32 => Val::F32((number as f32).to_bits()),
        wasmtime::ValType::F64 => Val::F64(f64::from(number).to_bits()),
        wasmtime::ValType::V128 => Val::V128(V128::from(u128::from(number.cast_unsigned()))),
        _ => Val::I32(number),
    }
}

/// Rewrites all calls of a module: indirect calls are compared with these slots.
fn rewritten(module: &[u8], slots: &[u32]) -> Vec<u8> {
    let mut draws = Vec::new();
    apply_at_random(module, || {
        if draws.is_empty() {
            draws = slots.iter().rev().map(|&slot| Some((slot, 1.0))).collect();
            draws.insert(0, None);
        }
        draws.pop().flatten()
    })
    .unwrap()
}

/// Returns the number of calls in a module: direct and indirect ones.
fn calls(module: &[u8]) -> (usize, usize) {
    let input = Input::parse(module).unwrap();
    let sites = counting::sites(&input).unwrap();
    let direct = sites.iter().filter(|site| site.callee.is_some()).count();
    (direct, sites.len() - direct)
}

/// Rewrites a module, and compares both. Returns the number of calls in the rewritten module.
fn same(text: &str, slots: &[u32]) -> (usize, usize) {
    let module = wat::parse_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let rewritten = rewritten(&module, slots);
    wasmparser::validate(&rewritten).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(run(&module), run(&rewritten), "{text}");
    calls(&rewritten)
}

#[test]
fn locals_of_an_inlined_function_begin_at_zero_each_time() {
    let calls = same(
        r#"(module
            (func $count (param i32) (result i32) (local i32 i64 f32 f64 v128)
                (local.set 1 (i32.add (local.get 1) (local.get 0)))
                (local.set 2 (i64.add (local.get 2) (i64.extend_i32_s (local.get 1))))
                (local.set 4 (f64.add (local.get 4) (f64.convert_i64_s (local.get 2))))
                (local.set 3 (f32.add (local.get 3) (f32.demote_f64 (local.get 4))))
                (local.set 5 (i32x4.add (local.get 5) (i32x4.splat (local.get 1))))
                (i32.add (i32x4.extract_lane 0 (local.get 5)) (i32.trunc_f32_s (local.get 3))))
            (func (export "f") (param i32) (result i32) (local i32)
                (loop $again
                    (local.set 1 (i32.add (local.get 1) (call $count (local.get 0))))
                    (br_if $again (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
                (local.get 1)))"#,
        &[0],
    );
    assert_eq!(calls, (0, 0));
}

#[test]
fn branches_of_an_inlined_function_stay_within_it() {
    let calls = same(
        r#"(module
            (global $g (export "g") (mut i32) (i32.const 0))
            (func $pick (param i32) (result i32)
                i32.const 11
                (block (result i32)
                    i32.const 22
                    (block (result i32)
                        i32.const 33
                        (br_table 0 1 2 1 (i32.rem_u (local.get 0) (i32.const 4))))
                    i32.add)
                (if (result i32) (i32.eq (i32.const 5) (local.get 0))
                    (then (return (i32.const 44)))
                    (else (loop (br_if 2 (i32.const 55) (local.get 0)) drop) (i32.const 66)))
                i32.add
                i32.add)
            (func $none (param i32)
                (br_if 0 (i32.gt_s (local.get 0) (i32.const 6)))
                (block (br_if 1 (i32.gt_s (local.get 0) (i32.const 4))) return)
                (global.set $g (local.get 0)))
            (func (export "f") (param i32) (result i32)
                (block $out (loop
                    (call $none (local.get 0))
                    (global.set $g (i32.add (i32.const 100) (call $pick (local.get 0))))
                    (br_if $out (i32.eqz (local.get 0)))
                    (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
                    (br 0)))
                (i32.add (global.get $g) (call $pick (global.get $g))))
            (func (export "dead") (result i32)
                (return (i32.const 1)) (call $none) (call $pick)))"#,
        &[0],
    );
    assert_eq!(calls, (0, 0));
}

#[test]
fn exceptions_pass_through_an_inlined_function() {
    let calls = same(
        r#"(module
            (tag $e (param i32))
            (func $throws (param i32) (result i32)
                (if (i32.gt_s (local.get 0) (i32.const 5)) (then (throw $e (local.get 0))))
                (i32.const 1))
            (func $catches (param i32) (result i32)
                (try_table (result i32) (catch $e 0) (call $throws (local.get 0)))
                (return (i32.add (i32.const 10))))
            (func $to_its_end (param i32) (result i32)
                (block (try_table (catch_all 0) (drop (call $throws (local.get 0)))
                    (return (i32.const 7))))
                (try_table (catch $e 0) (drop (call $throws (i32.const 9))))
                (i32.const 8))
            (func (export "f") (param i32) (result i32)
                (block (result i32)
                    (try_table (result i32) (catch $e 0)
                        (i32.add (call $catches (local.get 0)) (call $throws (local.get 0))))
                    (i32.add (i32.const 100))))
            (func (export "g") (param i32) (result i32) (call $to_its_end (local.get 0)))
            (func (export "h") (param i32) (result i32) (call $throws (local.get 0))))"#,
        &[0],
    );
    assert_eq!(calls, (0, 0));
}

#[test]
fn other_slots_are_called_as_before() {
    let text = r#"(module
        (type $unary (func (param i32) (result i32)))
        (type $same (func (param i32) (result i32)))
        (type $mixed (func (param i64 f32 f64 v128) (result f64)))
        (table 8 funcref)
        (elem (i32.const 1) $one $two $one $mixed $host $none)
        (func $one (type $same) (i32.add (local.get 0) (i32.const 1)))
        (func $two (type $unary) (i32.mul (local.get 0) (i32.const 2)))
        (func $mixed (type $mixed) (f64.add (local.get 2) (f64.promote_f32 (local.get 1))))
        (func $host (param i64) (result i64) (local.get 0))
        (func $none (unreachable))
        (func (export "f") (param i32) (result i32)
            (call_indirect (type $unary) (i32.const 40) (i32.sub (local.get 0) (i32.const 4))))
        (func (export "m") (param i64 f32 f64 v128) (result f64)
            (call_indirect (type $mixed) (local.get 0) (local.get 1) (local.get 2) (local.get 3)
                (i32.wrap_i64 (local.get 0))))
        EXPORTS)"#;
    let slots: Vec<_> = (0..10)
        .map(|slot| {
            format!(
                r#"(func (export "slot {slot}") (param i32) (result i32)
                    (call_indirect (type $unary) (local.get 0) (i32.const {slot})))"#
            )
        })
        .collect();
    let text = text.replace("EXPORTS", &slots.concat());
    // Empty slots, slots of another type and slots outside the table trap as they did.
    for slots in [&[1][..], &[2, 1], &[0], &[4], &[5], &[6, 1], &[7], &[8], &[99], &[2, 2, 3]] {
        let calls = same(&text, slots);
        assert_eq!(calls.1, 12, "all indirect calls stay: {slots:?}");
        assert_eq!(calls.0, 0, "their functions are inlined: {slots:?}");
    }
}

#[test]
fn what_cannot_be_inlined_is_called() {
    let calls = same(
        r#"(module
            (func $two (param i32) (result i32 i32) (local.get 0) (local.get 0))
            (func $itself (param i32) (result i32)
                (if (result i32) (local.get 0)
                    (then (i32.add (i32.const 1)
                        (call $itself (i32.sub (local.get 0) (i32.const 1)))))
                    (else (i32.const 0))))
            (func $reference (param i32) (result i32) (local funcref)
                (ref.is_null (local.get 1)))
            (func (export "f") (param i32) (result i32)
                (i32.add (i32.sub (call $two (local.get 0))) (call $reference (local.get 0))))
            (func (export "g") (param i32) (result i32) (call $itself (local.get 0))))"#,
        &[0],
    );
    // The recursive function is inlined into its caller, and calls itself there and in itself.
    assert_eq!(calls, (4, 0));
}

#[test]
fn a_profile_is_of_one_module() {
    let module = wat::parse_str(
        r"(module (table 2 funcref) (elem (i32.const 1) $g)
            (func $f (call $g) (call_indirect (i32.const 1))) (func $g nop))",
    )
    .unwrap();
    let input = Input::parse(&module).unwrap();
    let site = |operator, slot: Option<u32>| recorded::Site {
        operator,
        weight: 5_000_000,
        slot: slot.map(|slot| (slot, "g".to_owned())),
    };
    let mut recorded = Recorded {
        functions: vec![recorded::Function {
            tier: Tier::Core,
            identity: identity(&input, 0).unwrap(),
            entries: 0,
            name: "f".into(),
            sites: vec![site(0, None), site(2, Some(1))],
        }],
    };
    let text = recorded.write();
    assert_eq!(Recorded::parse(&text).unwrap().write(), text);
    assert!(matches!(Recorded::parse("# x\nx"), Err(ProfileError::Line { line: 2 })));
    let plan = Plan::of(&input, &recorded, Tier::Core).unwrap();
    let rewritten = rewrite::rewrite(&input, &plan, Limits::DEFAULT).unwrap();
    assert_eq!(calls(&rewritten), (0, 1));

    let refused =
        |recorded: &Recorded| Plan::of(&input, recorded, Tier::Core).err().unwrap().to_string();
    recorded.functions[0].sites[1].slot = Some((0, "g".into()));
    assert!(refused(&recorded).contains("slot 0 differs"), "{}", refused(&recorded));
    recorded.functions[0].identity += 1;
    assert!(refused(&recorded).contains("`f` differs"), "{}", refused(&recorded));
    assert!(refused(&recorded).contains("benches/profile"), "{}", refused(&recorded));
}

#[test]
fn calls_are_counted_by_function_and_operator() {
    let module = wat::parse_str(
        r#"(module (type $t (func (param i32))) (import "a" "b" (func))
            (table 2 funcref) (elem (i32.const 1) $g)
            (func $f (param i32)
                (call_indirect (type $t) (local.get 0) (i32.const 1)) (call $g (local.get 0)))
            (func $g (param i32)))"#,
    )
    .unwrap();
    let counted = count(&module).unwrap();
    wasmparser::validate(&counted).unwrap();
    assert_eq!(calls(&counted), (3, 1));

    let mut calls = CallCounts::default();
    for (number, slot) in [(0, 1), (1, counting::NO_SLOT), (1, counting::NO_SLOT), (0, 0)] {
        calls.add(number, slot);
    }
    let mut profile = Profile::default();
    profile.add(&calls);
    profile.add(&CallCounts::default());
    let text = profile.write([&module; 3], Tier::All).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with(['#', 'f', 't'])).collect();
    assert_eq!(lines, ["2 2500000 1 g", "2 2500000", "4 5000000"]);
    assert!(text.contains(" 0 f\n"), "{text}");
}

#[test]
fn functions_are_recorded_with_their_smallest_tier() {
    // The first slot has a library's function, or what takes its place in a smaller tier.
    let module = |library: &str| {
        let text = format!(
            "(module (table 3 funcref) (elem (i32.const 0) {library} $own)
                (func $own nop)
                (func $calls (call_indirect (i32.const 0)) (call_indirect (i32.const 1)))
                (func $missing unreachable)
                (func {library} (call_indirect (i32.const 0)) (call $own)))"
        );
        wat::parse_str(text).unwrap()
    };
    let (core, all) = (module("$stub"), module("$library"));
    let mut calls = CallCounts::default();
    for (number, slot) in [(0, 0), (1, 1), (2, 0), (3, counting::NO_SLOT)] {
        calls.add(number, slot);
    }
    let mut profile = Profile::default();
    profile.add(&calls);
    let text = profile.write([&core, &all, &all], Tier::All).unwrap();
    let lines = |text: &str| -> Vec<String> {
        let without_hash = |line: &str| match line.split_once(' ') {
            Some(("function", rest)) => rest.split_once(' ').unwrap().1.to_owned(),
            _ => line.to_owned(),
        };
        text.lines().filter(|line| !line.starts_with('#')).map(without_hash).collect()
    };
    assert_eq!(
        lines(&text),
        [
            "tier core",
            "0 calls",
            "1 2500000",
            "3 2500000 1 own",
            "tier data",
            "5000000 library",
            "1 2500000 0 library",
            "2 2500000",
        ]
    );
    let recorded = Recorded::parse(&text).unwrap();
    assert_eq!(recorded.write(), text);
    for (module, tier, changed) in [(&core, Tier::Core, 1), (&all, Tier::Data, 2)] {
        let input = Input::parse(module).unwrap();
        let plan = Plan::of(&input, &recorded, tier).unwrap();
        assert_eq!(input.defined().filter(|&index| plan.has(index)).count(), changed);
    }
    let input = Input::parse(&core).unwrap();
    let refused = Plan::of(&input, &recorded, Tier::Data).err().unwrap().to_string();
    assert!(refused.contains("`library` differs"), "{refused}");
}

#[test]
fn functions_with_the_same_name_and_code_count_as_one() {
    let text = "(module (func $f) (func $a (call $f)) (func $b (call $f))
        (func $c (call $a) (call $b)))";
    let text = text.replace("(func $a", r#"(func $a (@name "a")"#);
    let module = wat::parse_str(text.replace("(func $b", r#"(func $b (@name "a")"#)).unwrap();
    let mut calls = CallCounts::default();
    for number in [0, 0, 1, 2, 3] {
        calls.add(number, counting::NO_SLOT);
    }
    let mut profile = Profile::default();
    profile.add(&calls);
    let text = profile.write([&module; 3], Tier::All).unwrap();
    let recorded = Recorded::parse(&text).unwrap();
    let input = Input::parse(&module).unwrap();
    let plan = Plan::of(&input, &recorded, Tier::All).unwrap();
    for index in [1, 2] {
        assert!((plan.entries(index) - 0.4).abs() < 1e-6, "{text}");
        assert!((plan.reached(index, 0)[0].frequency - 0.6).abs() < 1e-6, "{text}");
    }
}

#[test]
fn the_size_of_a_function_does_not_depend_on_indices() {
    let size = |others: usize| {
        let text = format!(
            "(module {} (type $last (func (param f64))) {}
                (func $called (param f64))
                (func (call $called (f64.const 1))
                    (call_indirect (type $last) (f64.const 1) (i32.const 0)))
                (table 1 funcref))",
            "(type (func))".repeat(others),
            "(func)".repeat(others)
        );
        let module = wat::parse_str(text).unwrap();
        let input = Input::parse(&module).unwrap();
        input.size(input.defined().end - 1).unwrap()
    };
    assert_eq!(size(200), size(0));
}
