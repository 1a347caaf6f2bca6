//! The meter and its checker, on handwritten and on random modules.

#[path = "../fuzz/random_modules.rs"]
mod random;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use belljar::fuzzing::{
    check_extension, check_metered as check_module, merge_functions, meter_extension, meter_module,
    replace_functions, rewrite_calls,
};
use wasmtime::{
    Config, Engine, Error, Extern, Instance, Linker, Module, OptLevel, Store, Trap, Val,
};

/// A module with `functions`, and the parts of every metered module. Types: 0 returns fuel, 1 takes
/// and returns nothing. Functions: 0 returns fuel, 1 requests it. The counter is global 0.
fn metered(functions: &str) -> String {
    format!(
        r#"(module
            (type $give (func (result i64))) (type $none (func))
            (import "belljar" "refuel" (func $refuel (type $give)))
            (table 4 funcref) (memory 1)
            (global $fuel (mut i64) (i64.const 0)) (global $other (mut i64) (i64.const 0))
            (export "belljar.fuel" (global $fuel))
            (func $slow (global.set $fuel (i64.add (global.get $fuel) (call $refuel))))
            {functions})"#
    )
}

const LOOK: &str = "global.get $fuel i64.const 3 i64.sub global.set $fuel global.get $fuel
    i64.const 0 i64.lt_s if call $slow end";
/// A block that ends in a trap, and a quiet loop that counts its iterations in `$n`, up to its
/// body.
const QUIET: &str = "block i32.const 0 local.set $n
    loop local.get $n i32.const 1 i32.add local.tee $n i32.const 1000000 i32.gt_u br_if 1";
/// Takes the iterations of a quiet loop.
const TAKE: &str = "global.get $fuel local.get $n i64.extend_i32_u i64.const 3 i64.mul i64.sub
    global.set $fuel";
/// The end of the block.
const TRAP: &str = "return end global.get $fuel i64.const 0x4000000000000000 i64.sub
    global.set $fuel unreachable";
/// The smaller of `$k` and 4 MiB.
const PIECE: &str = "local.get $k i32.const 4194304 local.get $k i32.const 4194304 i32.lt_u select";

fn judge(text: &str) -> Result<(), String> {
    let module = wat::parse_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    check_module(&module).map_err(|e| match std::error::Error::source(&e) {
        Some(source) => format!("{e}: {source}"),
        None => e.to_string(),
    })
}

#[test]
fn what_looks_at_its_fuel_is_taken() {
    for functions in [
        String::new(),
        format!(r#"(func (export "f") {LOOK} loop {LOOK} call $slow2 br 0 end) (func $slow2)"#),
        format!("(func (local $n i32) {QUIET} br 0 end {TAKE} {TRAP})"),
        format!("(func (local $n i32) {QUIET} {TAKE} br 2 end {TAKE} {TRAP})"),
        format!("(func (local $n i32) {QUIET} {TAKE} return end {TAKE} {TRAP})"),
        format!("(func (local $n i32) {QUIET} i32.const 0 br_if 0 end {TAKE} {TRAP})"),
        format!(
            "(func (local $n i32) {LOOK} {QUIET} i32.const 0 if {TAKE} br 2 end br 0 end {TAKE}
             {TRAP})"
        ),
        format!("(func $f {LOOK} call $f)"),
        format!(
            "(func (param $k i32) loop {LOOK} i32.const 0 i32.const 9 {PIECE} memory.fill
             i32.const 1 br_if 0 end)"
        ),
        "(func (param $k i32) (global.set $fuel (i64.sub (global.get $fuel)
            (i64.extend_i32_u (local.get $k)))))"
            .into(),
        format!("(elem (i32.const 0) $f) (func $f {LOOK} i32.const 0 call_indirect (type $none))"),
    ] {
        judge(&metered(&functions)).unwrap_or_else(|e| panic!("{functions}: {e}"));
    }
}

/// An extension with `functions`, and the imports of every linked one. Type 0 takes and returns
/// nothing. Function 0 is the main module's.
fn extension(functions: &str) -> String {
    format!(
        r#"(module
            (type $none (func))
            (import "main" "link:f" (func $main (type $none)))
            (import "main" "memory" (memory 0)) (import "main" "belljar.table" (table 0 funcref))
            (import "main" "belljar.stack_pointer" (global $stack (mut i32)))
            {functions})"#
    )
}

/// The same, with the parts of every metered extension.
fn metered_extension(functions: &str) -> String {
    let parts = r#"
        (import "main" "belljar.fuel" (global $fuel (mut i64)))
        (import "belljar" "refuel" (func $refuel (result i64)))
        (func $slow (global.set $fuel (i64.add (global.get $fuel) (call $refuel))))"#;
    extension(&format!("{parts} {functions}"))
}

#[test]
fn an_extension_looks_at_its_fuel_before_it_leaves() {
    let judge = |functions: &str| {
        let text = metered_extension(&functions.replace("LOOK", LOOK).replace("PIECE", PIECE));
        let module = wat::parse_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        check_extension(&module).map_err(|e| match std::error::Error::source(&e) {
            Some(source) => format!("{e}: {source}"),
            None => e.to_string(),
        })
    };
    for functions in [
        "(func LOOK call $main)".into(),
        "(func LOOK nop LOOK call $main)".into(),
        "(elem (i32.const 0) $f) (func $f LOOK i32.const 0 LOOK call_indirect (type $none))".into(),
        "(elem (i32.const 0) $f) (func $f LOOK call $g) (func $g LOOK LOOK call $main)".into(),
        "(func LOOK i32.const 9 global.set $stack)".into(),
        "(func LOOK loop LOOK br 0 end)".into(),
        // Three units pay for 48 operators, of which the check has 10 and the end is one.
        format!("(func LOOK {})", "nop ".repeat(37)),
        format!("(func LOOK loop LOOK {} end)", "nop ".repeat(37)),
    ] {
        judge(&functions).unwrap_or_else(|e| panic!("{functions}: {e}"));
    }
    let cases = [
        ("(func call $main)", "does not begin with a look"),
        ("(func LOOK nop call $main)", "leaves an extension without a look"),
        ("(func LOOK call $main call $main)", "leaves an extension without a look"),
        ("(func nop)", "does not begin with a look"),
        ("(func LOOK i32.const 0 call_indirect (type $none))", "leaves an extension without"),
        ("(elem (i32.const 0) $main)", "an import can be called through a table"),
        ("(elem declare func $main) (func LOOK ref.func $main drop)", "an import can be called"),
        ("(func LOOK loop br 0 end)", "has a loop that does not look"),
        ("(func LOOK i64.const 9 global.set $fuel)", "writes to the counter"),
        ("(func LOOK call $refuel drop)", "asks for fuel out of turn"),
        ("(global (mut i32) (i32.const 0))", "it has state of its own"),
        ("(table 1 funcref)", "it has state of its own"),
        (r#"(data (i32.const 0) "x")"#, "it has state of its own"),
        (r#"(export "m" (memory 0))"#, "it has state of its own"),
        ("(func $f) (start $f)", "it has a start function"),
        (r#"(func (export "f"))"#, "does not begin with a look"),
        (
            "(func (param $k i32) LOOK loop LOOK i32.const 0 i32.const 9 PIECE memory.fill end)",
            "does not take fuel for",
        ),
    ];
    let long_cases = [
        (format!("(func LOOK {})", "nop ".repeat(38)), "takes too little fuel"),
        (format!("(func LOOK loop LOOK {} end)", "nop ".repeat(38)), "takes too little fuel"),
        (
            format!("(func (local $n i32) LOOK {QUIET} br 0 end {TAKE} {TRAP})"),
            "has a loop that does not look",
        ),
    ];
    let cases = cases.map(|(functions, why)| (functions.to_owned(), why));
    for (functions, why) in cases.into_iter().chain(long_cases) {
        let refused = judge(&functions).unwrap_err();
        assert!(refused.contains(why), "{functions:.200}: {refused}");
    }
    for (import, why) in [
        (r#"(import "main" "turn" (func))"#, "it imports of the host"),
        (r#"(import "host" "call" (func))"#, "it imports of the host"),
        (r#"(import "main" "other" (global (mut i64)))"#, "it imports state"),
        (r#"(import "other" "memory" (memory 0))"#, "it imports state"),
        (r#"(import "main" "belljar.fuel" (global (mut i64)))"#, "the counter is not"),
    ] {
        let memory = r#"(import "main" "memory" (memory 0))"#;
        let text = metered_extension("").replace(memory, import);
        let refused = check_extension(&wat::parse_str(&text).unwrap()).unwrap_err();
        let refused = format!("{refused}: {:?}", std::error::Error::source(&refused));
        assert!(refused.contains(why), "{import}: {refused}");
    }
}

/// What the meter makes of an extension passes the checker, whatever its functions call.
#[test]
fn extensions_are_metered() {
    for functions in [
        "(func call $main call $main)",
        "(elem (i32.const 0) $f $g) (func $f i32.const 0 call_indirect (type $none)) (func $g call $g)",
        "(func (param i32) loop local.get 0 br_if 0 call $main end)",
        "(func (param i32) loop local.get 0 br_if 0 end)",
        "(func i32.const 0 i32.const 0 i32.const 9 memory.copy global.get $stack drop)",
        "(global i32 (i32.const 7)) (func global.get 1 drop)",
        r#"(func $a call $b) (func $b call $a call $main) (func (export "PyInit_a") call $a)"#,
        "(func (param i32) block loop local.get 0 br_table 0 1 end end call $main)",
        "(func try_table (catch_all 0) call $main end)",
    ] {
        let module = wat::parse_str(extension(functions)).unwrap();
        let metered = meter_extension(&module).unwrap_or_else(|e| panic!("{functions}: {e:?}"));
        check_extension(&metered).unwrap();
        assert!(check_module(&metered).is_err(), "{functions}: no module by itself");
    }
    // Deep blocks, long functions and long call cycles take time that their size explains.
    let deep = 30_000;
    let cycle: Vec<_> =
        (0..deep).map(|f| format!("(func $c{f} call $c{})", (f + 1) % deep)).collect();
    for functions in [
        format!("(elem (i32.const 0) $f) (func $f {})", "nop ".repeat(30_000)),
        format!("(func (param i32) loop {} end)", "local.get 0 br_if 0 ".repeat(5_000)),
        cycle.concat(),
    ] {
        meter_extension(&wat::parse_str(extension(&functions)).unwrap()).unwrap();
    }
}

#[test]
fn what_does_not_look_at_its_fuel_is_refused() {
    let cases = [
        ("(func loop end)", "has a loop that does not look"),
        ("(func loop br 0 end)", "has a loop that does not look"),
        (
            "(func loop global.get $fuel i64.const 0 i64.sub global.set $fuel global.get $fuel
             i64.const 0 i64.lt_s if call $slow end end)",
            "has a loop that does not look",
        ),
        (
            "(func loop global.get $fuel i64.const 3 i64.sub global.set $other global.get $fuel
             i64.const 0 i64.lt_s if call $slow end end)",
            "has a loop that does not look",
        ),
        ("(func nop LOOK loop br 0 end)", "has a loop that does not look"),
        ("(func $f call $f)", "calls itself without a look"),
        ("(func $f nop LOOK call $f)", "asks for fuel out of turn|writes to the counter"),
        ("(func $f call $g) (func $g call $f)", "calls itself without a look"),
        (
            "(elem (i32.const 0) $f) (func $f i32.const 0 call_indirect (type $none))",
            "calls through one without a look",
        ),
        (
            "(elem (i32.const 0) $f) (func $f call $g)
             (func $g i32.const 0 call_indirect (type $none))",
            "calls through one without a look",
        ),
        (
            "(elem declare func $f) (func $f i32.const 0 ref.func $f drop call_indirect (type $none))",
            "calls through one without a look",
        ),
        (r#"(func (export "f"))"#, "is exported and does not look"),
        ("(func i64.const 9 global.set $fuel)", "writes to the counter"),
        ("(func global.get $fuel i64.const -1 i64.sub global.set $fuel)", "writes to the counter"),
        (
            "(func (param $k i32) (global.set $fuel (i64.sub (global.get $fuel)
             (i64.extend_i32_s (local.get $k)))))",
            "writes to the counter",
        ),
        ("(func call $slow)", "asks for fuel out of turn"),
        ("(func call $refuel drop)", "asks for fuel out of turn"),
        ("(func (local $n i32) QUIET br 0 end TRAP)", "does not take the turns"),
        ("(func (local $n i32) QUIET br 2 end TAKE TRAP)", "leaves a quiet loop with its turns"),
        ("(func (local $n i32) QUIET return end TAKE TRAP)", "leaves a quiet loop with its turns"),
        (
            "(func (local $n i32) QUIET TAKE i32.const 0 br_if 2 end TAKE TRAP)",
            "may leave a quiet loop, or not",
        ),
        (
            "(func (local $n i32) QUIET TAKE i32.const 0 br_table 0 2 end TAKE TRAP)",
            "may leave a quiet loop, or not",
        ),
        ("(func (local $n i32) QUIET call $f end TAKE TRAP) (func $f)", "calls from a quiet loop"),
        (
            "(func (local $n i32) QUIET i32.const 1 memory.grow drop end TAKE TRAP)",
            "calls from a quiet loop",
        ),
        ("(func (local $n i32) QUIET loop br 0 end end TAKE TRAP)", "has a loop in a quiet one"),
        (
            "(func (local $n i32) QUIET i32.const 9 local.set $n end TAKE TRAP)",
            "writes to a local that counts",
        ),
        (
            "(func (local $n i32) QUIET end TAKE i32.const 9 local.tee $n drop TRAP)",
            "writes to a local that counts",
        ),
        ("(func (local $n i32) QUIET end TAKE TAKE TRAP)", "writes to the counter"),
        (
            "(func (local $n i32) (local $m i32) QUIET end global.get $fuel local.get $m
             i64.extend_i32_u i64.const 3 i64.mul i64.sub global.set $fuel TRAP)",
            "does not take the turns",
        ),
        // Its cost is more than nothing.
        ("(func (local $n i32) QUIET end LESS TRAP)", "does not take the turns"),
        // This many iterations of that size take too long.
        ("(func (local $n i32) MORE nop nop end TAKE TRAP)", "may go on for too long"),
        ("(func (local $n i32) EVER end TAKE TRAP)", "has a loop that does not look"),
        // It does not trap, or not at once.
        ("(func (local $n i32) QUIET end TAKE return end)", "has a quiet loop that does not trap"),
        (
            "(func (local $n i32) block i32.const 0 br_if 0 end QUIET end TAKE TRAP)",
            "goes on where it should trap",
        ),
        (
            "(func (local $n i32) QUIET end TAKE return end block TRAP)",
            "goes on where it should trap",
        ),
        (
            "(func (local $n i32) QUIET end TAKE return end nop TRAP2)",
            "goes on where it should trap",
        ),
        (
            "(func (local $n i32) block block i32.const 0 local.set $n loop
             local.get $n i32.const 1 i32.add local.tee $n i32.const 1000 i32.gt_u br_if 1
             end TAKE end TRAP)",
            "has a quiet loop that does not trap",
        ),
        (
            "(func (local $n i32) block loop local.get $n i32.const 1 i32.add local.tee $n
             i32.const 1000 i32.gt_u br_if 1 end TAKE TRAP)",
            "begins to count anywhere",
        ),
        (
            "(func (param $k i32) i32.const 0 i32.const 9 PIECE memory.fill)",
            "without a look at the fuel",
        ),
        (
            "(func (param $k i32) loop LOOK i32.const 0 i32.const 9 PIECE memory.fill
             i32.const 0 i32.const 9 PIECE memory.copy end)",
            "without a look at the fuel",
        ),
        (
            "(func (param $k i32) loop LOOK i32.const 0 i32.const 9 local.get $k memory.copy end)",
            "as much memory as it is told to",
        ),
        (
            "(func i32.const 0 i32.const 0 table.get 0 i32.const 4 table.fill 0)",
            "an instruction that is not provided for",
        ),
        (
            "(func i32.const 0 i32.const 0 table.get 0 table.set 0)",
            "an instruction that is not provided for",
        ),
        ("(func return_call $slow)", "not valid"),
        ("(memory 1)", "not valid"),
        ("(start $f) (func $f LOOK)", "it has a start function"),
        (r#"(export "again" (global $fuel))"#, "the counter is not what it should be"),
        (r#"(export "give" (func $refuel))"#, "what gives fuel is not what it should be"),
        ("(elem (i32.const 0) $refuel)", "what gives fuel can be called through a table"),
    ];
    for (functions, expected) in cases {
        let text = functions.replace("MORE", &QUIET.replace("1000000", "2000000000"));
        let text = text.replace("EVER", &QUIET.replace("1000000", "-1"));
        let text = text.replace("LESS", &TAKE.replace("const 3", "const 0"));
        let text = text.replace("TRAP2", &TRAP["return end ".len()..]).replace("TRAP", TRAP);
        let text = text.replace("LOOK", LOOK).replace("QUIET", QUIET);
        let text = text.replace("TAKE", TAKE).replace("PIECE", PIECE);
        let error = judge(&metered(&text)).expect_err(functions);
        assert!(expected.split('|').any(|part| error.contains(part)), "{functions}: {error}");
    }
    let without = r#"(module (import "belljar" "refuel" (func (result i64))))"#;
    assert!(judge(without).unwrap_err().contains("no counter"));
    let long = format!("(func {})", "nop ".repeat(300_000));
    assert!(judge(&metered(&long)).unwrap_err().contains("runs for too long"));
}

/// Calls an export on a new engine, with `fuel` provided `refills` times in slices.
struct Running {
    store: Store<()>,
    instance: Instance,
    refills: Arc<AtomicU64>,
}

/// The trap of a program that has used all of its fuel.
#[derive(Debug, thiserror::Error)]
#[error("no more fuel")]
struct Dry;

fn engine() -> Engine {
    let mut config = Config::new();
    config.wasm_exceptions(true).gc_heap_reservation(0).gc_heap_guard_size(0);
    // Calls of originals take more of it.
    config.max_wasm_stack(1 << 20);
    Engine::new(&config).unwrap()
}

fn start(engine: &Engine, module: &[u8], slice: i64, most: u64) -> Result<Running, Error> {
    let refills = Arc::new(AtomicU64::new(0));
    let mut linker = Linker::new(engine);
    let count = Arc::clone(&refills);
    linker.func_wrap("belljar", "refuel", move || {
        if count.fetch_add(1, Ordering::Relaxed) < most {
            Ok(slice)
        } else {
            Err(Error::new(Dry))
        }
    })?;
    let mut store = Store::new(engine, ());
    let instance = linker.instantiate(&mut store, &Module::new(engine, module)?)?;
    Ok(Running {
        store,
        instance,
        refills,
    })
}

impl Running {
    /// Calls an export; returns a trap by its kind.
    fn call(&mut self, name: &str, arguments: &[Val]) -> Result<Vec<Val>, Option<Trap>> {
        let function = self.instance.get_func(&mut self.store, name).unwrap();
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        match function.call(&mut self.store, arguments, &mut results) {
            Ok(()) => Ok(results),
            Err(error) => Err(error.downcast_ref::<Trap>().copied()),
        }
    }

    fn fuel(&mut self) -> i64 {
        let fuel = self.instance.get_global(&mut self.store, "belljar.fuel").unwrap();
        fuel.get(&mut self.store).unwrap_i64()
    }
}

fn metered_text(text: &str) -> Vec<u8> {
    let module = meter_module(&wat::parse_str(text).unwrap()).unwrap();
    check_module(&module).unwrap();
    module
}

/// Endless loops of every kind.
#[test]
fn every_endless_program_comes_to_the_host() {
    let text = r#"(module (memory 1) (type $none (func)) (table 1 funcref) (elem (i32.const 0) $through) (tag $t)
        (func (export "inner") (local i32)
            loop loop local.get 0 i32.const 1 i32.add local.tee 0 i32.const 7 i32.and br_if 0 end
            br 0 end)
        (func (export "calling") loop call $nothing br 0 end)
        (func $nothing)
        (func $even (export "recursive") (param i32) (result i32)
            local.get 0 i32.const 1 i32.add call $odd)
        (func $odd (param i32) (result i32)
            (if (result i32) (i32.lt_u (local.get 0) (i32.const 5000))
                (then (call $even (i32.add (local.get 0) (i32.const 1))))
                (else (loop (call $nothing) (br 0)) (i32.const 0))))
        (func $through (export "through") (local i32)
            global.get 0 i32.const 1 i32.add global.set 0
            global.get 0 i32.const 5000 i32.lt_u
            if i32.const 0 call_indirect (type $none) end
            loop call $nothing br 0 end)
        (global (mut i32) (i32.const 0))
        (func (export "thrown")
            loop $again (try_table (catch $t $again) (throw $t)) end)
        (func (export "copies")
            loop i32.const 0 i32.const 1 i32.const 64 memory.copy br 0 end)
        (func (export "table") (param i32)
            loop block local.get 0 br_table 0 1 2 end local.get 0 br_if 0 br 0 end)
        (func (export "quiet") loop br 0 end)
        (func (export "quiet table") (param i32) (result i32)
            loop block local.get 0 br_table 0 1 end local.get 0 br_if 0 br 0 end i32.const 1))"#;
    let (engine, module) = (engine(), metered_text(text));
    for (name, arguments) in [
        ("inner", &[][..]),
        ("calling", &[]),
        ("recursive", &[Val::I32(0)]),
        ("through", &[]),
        ("thrown", &[]),
        ("copies", &[]),
        ("table", &[Val::I32(1)]),
    ] {
        let mut running = start(&engine, &module, 100_000, 20).unwrap();
        assert_eq!(running.call(name, arguments).unwrap_err(), None, "{name}");
        assert_eq!(running.refills.load(Ordering::Relaxed), 21, "{name}");
        // All fuel is used, except for one iteration's.
        let left = running.fuel();
        assert!((-70..0).contains(&left), "{name}: {left}");
    }
    // A loop without calls continues for a while, then traps.
    for (name, arguments) in [("quiet", &[][..]), ("quiet table", &[Val::I32(1)])] {
        let mut running = start(&engine, &module, 100_000, 20).unwrap();
        let ended = running.call(name, arguments);
        assert_eq!(ended.unwrap_err(), Some(Trap::UnreachableCodeReached), "{name}");
        assert_eq!(running.refills.load(Ordering::Relaxed), 1, "{name}");
        let taken = 100_000 - running.fuel();
        assert_eq!(taken, 1 + (1 << 62), "{name}");
    }
}

/// The exact fuel: a change here changes the meaning of every limit.
#[test]
fn costs_are_what_the_documentation_says() {
    let text = r#"(module (memory 400)
        (func (export "quiet") (param i32)
            loop local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end)
        (func (export "left") (param i32)
            block loop local.get 0 i32.eqz br_if 1
            local.get 0 i32.const 1 i32.sub local.set 0 br 0 end end)
        (func (export "conditionally") (param i32) (result i32)
            block (result i32) loop local.get 0 i32.const 1 i32.sub local.set 0
            i32.const 7 local.get 0 i32.eqz br_if 1 drop br 0 end i32.const 8 end)
        (func (export "returned") (param i32) (result i32)
            loop local.get 0 i32.const 1 i32.sub local.tee 0 i32.eqz
            if i32.const 7 return end br 0 end i32.const 8)
        (func (export "told") (param i32)
            block loop local.get 0 i32.const 1 i32.sub local.tee 0 br_table 1 0 end end)
        (func (export "nested") (param i32) (local i32)
            loop i32.const 10 local.set 1
            loop local.get 1 i32.const 1 i32.sub local.tee 1 br_if 0 end
            local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end)
        (func (export "calling") (param i32)
            loop call $nothing local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end)
        (func $nothing)
        (func (export "copy") (param i32)
            i32.const 0 i32.const 100 local.get 0 memory.copy)
        (func (export "fill") (param i32)
            i32.const 0 i32.const 100 local.get 0 memory.fill))"#;
    let (engine, module) = (engine(), metered_text(text));
    for (name, argument, expected) in [
        ("quiet", 1_000, 1 + 1_000 * 5),
        ("left", 1_000, 1 + 1_001 * 8),
        ("conditionally", 1_000, 1 + 1_000 * 9),
        ("returned", 1_000, 1 + 1_000 * 8),
        ("told", 1_000, 1 + 1_000 * 5),
        ("nested", 100, 1 + 100 * (7 + 10 * 5)),
        ("calling", 1_000, 1 + 1_000 * 6),
        ("copy", 32, 4),
        ("copy", 33, 4 + 33 + 1),
        ("copy", 10 << 20, 4 + (10 << 20) + 3),
        ("fill", 32, 4),
        ("fill", 10 << 20, 4 + (10 << 20) + 3),
    ] {
        for slice in [7, 1_000, 1 << 40] {
            let mut running = start(&engine, &module, slice, u64::MAX).unwrap();
            running.call(name, &[Val::I32(argument)]).unwrap();
            let given = running.refills.load(Ordering::Relaxed).cast_signed() * slice;
            assert_eq!(given - running.fuel(), expected, "{name}({argument}), slices of {slice}");
        }
    }
}

/// Copies of all sizes, overlapping in both directions, compared with the instruction itself.
#[test]
fn memory_is_copied_and_filled_as_by_the_instruction() {
    const MIB: i32 = 1 << 20;
    let text = r#"(module (memory (export "memory") 400)
        (func (export "copy") (param i32 i32 i32)
            local.get 0 local.get 1 local.get 2 memory.copy)
        (func (export "fill") (param i32 i32 i32)
            local.get 0 local.get 1 local.get 2 memory.fill))"#;
    let engine = engine();
    let plain = start(&engine, &wat::parse_str(text).unwrap(), 0, 0).unwrap();
    let mut both = [plain, start(&engine, &metered_text(text), 1 << 20, u64::MAX).unwrap()];
    for running in &mut both {
        let memory = running.instance.get_memory(&mut running.store, "memory").unwrap();
        let mut state = 1_u32;
        for byte in memory.data_mut(&mut running.store) {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            *byte = (state >> 16) as u8;
        }
    }
    let mut calls = Vec::new();
    for length in 0..80 {
        for distance in [0, 1, 3, 8, 15, 16, 17, 40, 100] {
            calls.push(("copy", [1_000 + distance, 1_000, length]));
            calls.push(("copy", [1_000, 1_000 + distance, length]));
        }
        calls.push(("fill", [2_000 + length, length + 400, length]));
    }
    for distance in [0, 1, 4_096, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 9 * MIB] {
        for length in [4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 9 * MIB + 77] {
            calls.push(("copy", [5 + distance, 5, length]));
            calls.push(("copy", [5, 5 + distance, length]));
        }
    }
    calls.push(("fill", [77, 0x1ff, 9 * MIB + 3]));
    let end = 400 * 65_536;
    for (length, start) in [(0, end), (0, end + 1), (16, end - 16), (16, end - 15), (20, -10)] {
        calls.push(("copy", [start, 0, length]));
        calls.push(("copy", [0, start, length]));
        calls.push(("fill", [start, 1, length]));
    }
    calls.push(("copy", [0, end - 5 * MIB, 6 * MIB]));
    let mut number = 0;
    for (name, arguments) in calls {
        let values = arguments.map(Val::I32);
        let ends = both.each_mut().map(|running| running.call(name, &values).map(|r| r.len()));
        assert_eq!(ends[0], ends[1], "{name}{arguments:?}");
        number += 1;
        // All of the memory after some, the touched part after each.
        let all = arguments[2] > MIB || number % 97 == 0;
        let pages = both.each_mut().map(|running| {
            let memory = running.instance.get_memory(&mut running.store, "memory").unwrap();
            let data = memory.data(&running.store);
            if all {
                data.to_vec()
            } else {
                data[..4_096].to_vec()
            }
        });
        // A copy that ends out of bounds may have started, because it is cut into pieces.
        if ends[0].is_ok() {
            assert!(pages[0] == pages[1], "{name}{arguments:?}");
        }
    }
    let mut running = start(&engine, &metered_text(text), 4 << 20, 1).unwrap();
    let stopped = running.call("fill", &[Val::I32(0), Val::I32(1), Val::I32(25 * MIB)]);
    assert_eq!(stopped.unwrap_err(), None, "one instruction is interrupted");
}

/// The effects of a module, call by call: results, and the memory and globals after each.
fn trace(engine: &Engine, module: &[u8], names: &[String]) -> (Vec<String>, u64) {
    let mut running = start(engine, module, 50, u64::MAX).unwrap();
    let mut seen = Vec::new();
    for name in names {
        let Some(export) = running.instance.get_export(&mut running.store, name) else {
            continue;
        };
        match export {
            Extern::Func(function) => {
                let count = function.ty(&running.store).params().len();
                let arguments: Vec<Val> = (1..).map(Val::I32).take(count).collect();
                let ended = running.call(name, &arguments);
                seen.push(format!("{name}: {ended:?}"));
            }
            Extern::Global(global) => {
                let value = global.get(&mut running.store);
                seen.push(format!("{name}: {value:?}"));
            }
            Extern::Memory(memory) => {
                let data = memory.data(&running.store);
                let sum = data
                    .iter()
                    .fold(0_u64, |sum, &byte| sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
                seen.push(format!("{name}: {} {sum:x}", data.len()));
            }
            _ => {}
        }
    }
    (seen, running.refills.load(Ordering::Relaxed))
}

/// Iterates over random numbers, the same in every test.
fn random_numbers() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0x2545_f491_4f6c_dd1d_u64), |&state| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 7);
        Some(state ^ (state << 17))
    })
}

/// The main module that random extensions share their state with.
const MAIN: &str = r#"(module (func (export "link:f")) (memory (export "memory") 1 4)
    (table (export "belljar.table") 8 funcref)
    (global (export "belljar.stack_pointer") (mut i32) (i32.const 0))
    (global (export "belljar.fuel") (mut i64) (i64.const 0)))"#;

/// Calls all functions of a metered extension, and returns whether the last of ten amounts of fuel
/// was used up, or `None` if no function could be called. Panics if the extension runs on for
/// longer than these pay for: wasmtime counts its operators, too.
fn runs_out_of_fuel(engine: &Engine, main: &Module, metered: &[u8]) -> Option<bool> {
    const AMOUNT: i64 = 1_000;
    const AMOUNTS: u64 = 10;
    /// Bytes of the largest piece that is copied after a look, and paid for then. wasmtime counts
    /// them, also of a copy that does not fit into the memory.
    const PIECE: u64 = 4 << 20;
    let module = Module::new(engine, metered).ok()?;
    let mut asked = None;
    for name in module.exports().map(|export| export.name().to_owned()) {
        let mut store = Store::new(engine, 0);
        // An operator in 16, and those of the check itself.
        store.set_fuel(AMOUNTS * (AMOUNT.cast_unsigned() * 32 + PIECE) + 100_000).unwrap();
        let mut linker = Linker::new(engine);
        let main = linker.instantiate(&mut store, main).unwrap();
        linker.instance(&mut store, "main", main).unwrap();
        let refuel = |mut caller: wasmtime::Caller<'_, u64>| {
            *caller.data_mut() += 1;
            let is_left = *caller.data() < AMOUNTS;
            if is_left {
                Ok(AMOUNT)
            } else {
                Err(Error::msg("no more fuel"))
            }
        };
        linker.func_wrap("belljar", "refuel", refuel).unwrap();
        let Ok(extension) = linker.instantiate(&mut store, &module) else {
            continue;
        };
        let Some(function) = extension.get_func(&mut store, &name) else {
            continue;
        };
        let arguments = vec![Val::I32(7); function.ty(&store).params().len()];
        let mut results = vec![Val::I32(0); function.ty(&store).results().len()];
        let ended = function.call(&mut store, &arguments, &mut results);
        let trap = ended.as_ref().err().and_then(|error| error.downcast_ref::<Trap>());
        assert_ne!(trap, Some(&Trap::OutOfFuel), "{name} runs on without a look at its fuel");
        asked = Some(asked == Some(true) || *store.data() == AMOUNTS);
    }
    asked
}

/// What the checker accepts stops when there is no more fuel, even if the meter's output was
/// damaged. `BELLJAR_TEST_EXTENSIONS` is the number of extensions, each of which is damaged in 30
/// ways; 33,000 take a quarter of an hour.
#[test]
fn random_extensions_stop() {
    let count = std::env::var("BELLJAR_TEST_EXTENSIONS");
    let count: usize = count.map_or(30, |count| count.parse().unwrap());
    let mut config = Config::new();
    config.consume_fuel(true).cranelift_opt_level(OptLevel::None);
    let engine = Engine::new(&config).unwrap();
    let main = Module::new(&engine, wat::parse_str(MAIN).unwrap()).unwrap();
    let (mut random, mut stopped, mut damaged) = (random_numbers(), 0, 0);
    for _ in 0..count {
        let bytes: Vec<u8> = random.by_ref().take(1_500).map(|n| (n >> 32) as u8).collect();
        let extension = random::extension(random::Choices::new(&bytes));
        let metered = meter_extension(&extension).unwrap();
        stopped += u32::from(runs_out_of_fuel(&engine, &main, &metered) == Some(true));
        for number in random.by_ref().take(30) {
            let mut other = metered.clone();
            other[(number >> 16) as usize % metered.len()] = (number >> 8) as u8;
            if other != metered && check_extension(&other).is_ok() {
                damaged += u32::from(runs_out_of_fuel(&engine, &main, &other).is_some());
            }
        }
    }
    println!("{count} extensions: {stopped} stopped, {damaged} ran damaged");
    assert!(stopped > 5 && damaged > 50, "{stopped} stopped, {damaged} ran damaged");
}

/// With a meter alone, with rewritten calls and a meter, each also with merged functions, and with
/// functions that call those that they replace and a meter.
#[test]
fn random_modules_do_the_same_when_changed() {
    let (engine, mut values, mut refills, mut rewritten, mut merged) = (engine(), 0, 0, 0, 0);
    let mut random = random_numbers();
    for _ in 0..300 {
        let bytes: Vec<u8> = random.by_ref().take(1_500).map(|n| (n >> 32) as u8).collect();
        let module = random::module(random::Choices::new(&bytes));
        let plain = Module::new(&engine, &module).unwrap();
        let names: Vec<String> = plain.exports().map(|e| e.name().to_owned()).collect();
        let twice: Vec<String> = names.iter().chain(&names).cloned().collect();
        let (expected, _) = trace(&engine, &module, &twice);
        let other_calls = rewrite_calls(&module, || {
            let number = random.next()? >> 32;
            let frequency = [1.0, 1e-4, 1e-6][number as usize % 3];
            (number % 5 < 3).then_some(((number >> 16) as u32 % 7, frequency))
        })
        .unwrap();
        let others =
            replace_functions(&random::named(&module), random::CALLS_THE_ORIGINAL).unwrap();
        for unmetered in [&module, &other_calls, &others] {
            let metered = meter_module(unmetered).unwrap();
            check_module(&metered).unwrap();
            let (seen, asked) = trace(&engine, &metered, &twice);
            assert_eq!(expected, seen);
            refills += asked;
            let with_merged = meter_module(&merge_functions(unmetered).unwrap()).unwrap();
            check_module(&with_merged).unwrap();
            // The fuel is the same, too.
            let fuel = ["belljar.fuel".to_owned()];
            let with_fuel: Vec<String> = twice.iter().chain(&fuel).cloned().collect();
            let traces = [&metered, &with_merged].map(|m| trace(&engine, m, &with_fuel));
            assert_eq!(traces[0], traces[1]);
            merged += u32::from(with_merged.len() < metered.len());
        }
        values += expected.len();
        rewritten += u32::from(module != other_calls);
    }
    assert!(values > 2_000 && refills > 4_000, "{values} values, {refills} times more fuel");
    assert!(rewritten > 150, "{rewritten} have other calls");
    assert!(merged > 50, "{merged} have merged functions");
}
