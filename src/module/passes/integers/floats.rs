//! Floats: operations raise the status flags that x86-64 raises, and conversions to integers give
//! what x86-64 gives.
//!
//! WebAssembly has no status flags. The C library's emulation is a word in memory that only
//! explicit calls write, so numpy, which reads it after every loop, never warns about a division by
//! zero, an overflow or an invalid operation. Here each operation of numpy's loops, its scalars and
//! the C library's functions ([`FUNCTIONS`], [`C_LIBRARY`]) is followed by one comparison of its result. An
//! infinity or NaN, which is rare, is passed to a function with the operands, which sets the flags
//! by the rules of IEEE 754 ([`flags`]). So the flags are exact. The fastest loops run as they were,
//! and once more with flags where a result is an infinity or NaN ([`loops`]).
//!
//! Underflow, which numpy ignores by default, is looked for once the code has asked for it.
//!
//! Conversions of numbers that do not fit give the smallest integer and "invalid" on x86-64, and
//! the nearest integer in WebAssembly ([`casts`]).

mod casts;
mod emit;
mod flags;
mod functions;
mod loops;

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};
use wasmparser::Operator;

use super::IntegersError;
use super::parsed::{Changes, Parsed};
use super::windows::Step::{Call, Const, Get};
use super::windows::{Step, at, find};
use emit::Other;
use flags::{Flag, Notes, WANTED};
use functions::{C_LIBRARY, CONTIGUOUS, CONVERSIONS, FUNCTIONS, SCALARS, STRIDED};

/// The function that numpy's scalars call before an operation.
const CLEAR: &str = "npy_clear_floatstatus_barrier";

pub(super) fn apply(
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let notes = Notes::add(changes);
    let casts = casts::Casts::add(changes);
    raise_in(FUNCTIONS, parsed, &notes, changes)?;
    let clear = parsed.function(CLEAR)?;
    for (kinds, operations) in SCALARS {
        for (kind, operation) in pairs(kinds, operations) {
            let name = format!("{kind}_{operation}");
            // The interpreter has functions of the same names.
            for index in parsed.named(&name) {
                if calls(parsed, *index, clear)? {
                    emit::rewrite(parsed, *index, &notes, Other::default(), changes)?;
                }
            }
        }
    }
    for how in CONVERSIONS {
        for (from, to) in pairs(casts::SOURCES, casts::TARGETS) {
            let name = format!("{how}_{from}_to_{to}");
            let vectors = *how == CONTIGUOUS && from != "half";
            for index in parsed.named(&name) {
                let other = Other {
                    cast: casts.into(to, vectors),
                    call: None,
                };
                emit::rewrite(parsed, *index, &notes, other, changes)?;
                if vectors && matches!(to, "uint" | "ulong") {
                    let single = parsed.named(&format!("{STRIDED}_{from}_to_{to}"));
                    let single = single.first().ok_or(IntegersError::Missing("conversion"))?;
                    changes.wrap(*index, |inner| casts::in_vectors(inner, *single))?;
                }
            }
        }
    }
    loops::apply(parsed, &notes, changes)?;
    want_underflow(parsed, changes)
}

/// Has the functions of the C library raise flags.
pub(super) fn apply_to_c_library(
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let notes = Notes::add(changes);
    raise_in(C_LIBRARY, parsed, &notes, changes)?;
    forced(parsed, changes)
}

/// Has all functions of these names raise flags.
fn raise_in(
    functions: &[(&'static str, &str)],
    parsed: &Parsed<'_>,
    notes: &Notes,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    for (what, names) in functions {
        for name in names.split_ascii_whitespace() {
            let indices = parsed.named(name);
            if indices.is_empty() {
                return Err(IntegersError::Missing(what));
            }
            for index in indices {
                emit::rewrite(parsed, *index, notes, Other::default(), changes)?;
            }
        }
    }
    Ok(())
}

fn pairs<'a>(left: &'a str, right: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let right = move || right.split_ascii_whitespace();
    left.split_ascii_whitespace().flat_map(move |l| right().map(move |r| (l, r)))
}

/// Whether a function calls another.
fn calls(parsed: &Parsed<'_>, index: u32, callee: u32) -> Result<bool, IntegersError> {
    let (body, _) = parsed.code(index).ok_or(IntegersError::Missing("code of a scalar"))?;
    for operator in body.get_operators_reader()? {
        if matches!(operator?, Operator::Call { function_index } if function_index == callee) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the C library computes only for its flags, and the compiler took out.
fn forced(parsed: &Parsed<'_>, changes: &mut Changes<'_, '_>) -> Result<(), IntegersError> {
    for name in ["__math_divzero", "__math_divzerof"] {
        changes.wrap(parsed.function(name)?, |inner| {
            let mut function = Function::new([]);
            let mut code = function.instructions();
            flags::raise(&mut code, Flag::Divide);
            code.local_get(0).call(inner).end();
            function
        })?;
    }
    for (name, pole) in [("log10", 0.0), ("log10f", 0.0), ("log1p", -1.0), ("log1pf", -1.0)] {
        changes.wrap(parsed.function(name)?, |inner| {
            let mut function = Function::new([]);
            let mut code = function.instructions();
            code.local_get(0);
            if name.ends_with('f') {
                code.f64_promote_f32();
            }
            code.f64_const(pole.into()).f64_eq().if_(BlockType::Empty);
            flags::raise(&mut code, Flag::Divide);
            code.end().local_get(0).call(inner).end();
            function
        })?;
    }
    // Of `exp` and its like, where the result may not be a normal number.
    for index in parsed.named("specialcase") {
        let parameters = parsed.code(*index).map_or(0, |(_, parameters)| parameters as u32);
        changes.wrap(*index, |inner| {
            let mut function = Function::new([(1, ValType::F64)]);
            let mut code = function.instructions();
            for parameter in 0..parameters {
                code.local_get(parameter);
            }
            code.call(inner).local_tee(parameters);
            code.f64_abs().f64_const(f64::MIN_POSITIVE.into()).f64_lt().if_(BlockType::Empty);
            flags::raise(&mut code, Flag::Underflow);
            code.end().local_get(parameters).end();
            function
        })?;
    }
    Ok(())
}

/// Notes that the code wants to be told of underflow, where `np.errstate` and its like are made.
fn want_underflow(parsed: &Parsed<'_>, changes: &mut Changes<'_, '_>) -> Result<(), IntegersError> {
    const MAKE: &str = "extobj_make_extobj";
    const MASK: u32 = 8;
    const UNDERFLOW: i32 = 7 << 6;
    let steps: &[Step] = &[Get(MASK), Const(17_367_926), Const(8_989), Call("PyCapsule_New")];
    let offsets = find(parsed, MAKE, steps, "the mask of errors")?;
    let mut code = Vec::new();
    let mut sink = InstructionSink::new(&mut code);
    sink.local_get(MASK).i32_load(at(0)).i32_const(UNDERFLOW).i32_and();
    sink.if_(BlockType::Empty);
    flags::set(&mut sink, WANTED);
    sink.end();
    changes.splice(parsed.function(MAKE)?, offsets[0]..offsets[0], code);
    Ok(())
}
