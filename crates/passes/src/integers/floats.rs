//! Floats: makes operations raise the status flags of x86-64, and conversions to integers give its
//! results.
//!
//! WebAssembly has no status flags. The C library emulates them by a word in memory that only
//! explicit calls write. numpy reads it after every loop, so it would never warn about a division
//! by zero, an overflow or an invalid operation.
//!
//! This pass adds one comparison after each operation of numpy's loops, its scalars and the C
//! library's functions ([`FUNCTIONS`], [`C_LIBRARY`]). If the result is an infinity or NaN, which
//! is rare, a function gets it with the operands and sets the flags by the rules of IEEE 754
//! ([`flags`]). So the flags are exact. The fastest loops check vectors of results, or run
//! unchanged and once again with flags if a result is an infinity or NaN ([`loops`]). So do the C
//! library's functions that raise no other flag ([`FINITE`]).
//!
//! Underflow, which numpy ignores by default, is checked once the code has asked for it.
//!
//! Conversions of numbers that do not fit give the smallest integer and "invalid" on x86-64, but
//! the nearest integer in WebAssembly ([`casts`]).

mod casts;
mod emit;
mod flags;
mod functions;
mod loops;
mod sums;
mod vectors;

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};
use wasmparser::Operator;

use super::IntegersError;
use super::parsed::{Changes, Copies, Parsed};
use super::patterns::Step::{Call, Const, Get};
use super::patterns::{Step, at, find};
use emit::Other;
use flags::{Flag, Notes, STATUS, WANTED};
use functions::{
    C_LIBRARY, CONTIGUOUS, CONVERSIONS, FILTERS, FINITE, FUNCTIONS, RECIPROCALS, SCALARS, STRIDED,
};

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
            // The interpreter has functions with the same names.
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
                    ..Other::default()
                };
                emit::rewrite(parsed, *index, &notes, other, changes)?;
                if let (true, Some(below)) = (vectors, casts::below(from, to)) {
                    let copies = changes.both(*index)?;
                    changes.replace(*index, casts::looking_first(from, below, copies));
                }
                if vectors && matches!(to, "uint" | "ulong") {
                    let single = parsed.named(&format!("{STRIDED}_{from}_to_{to}"));
                    let single = single.first().ok_or(IntegersError::Missing("conversion"))?;
                    changes.wrap(*index, |inner| casts::in_vectors(inner, *single))?;
                }
            }
        }
    }
    let conversions = Other {
        conversions: Some(casts),
        ..Other::default()
    };
    // Smaller tiers do not contain scipy.
    let is_there = |name: &str| !parsed.named(name).is_empty();
    if FILTERS.split_ascii_whitespace().any(is_there) {
        for name in FILTERS.split_ascii_whitespace() {
            emit::rewrite(parsed, parsed.function(name)?, &notes, conversions, changes)?;
        }
    }
    // Reciprocals of integers are computed as floats.
    for kind in RECIPROCALS.split_ascii_whitespace() {
        let other = Other {
            cast: casts.into(kind, false),
            ..Other::default()
        };
        for index in parsed.named(&format!("{}_reciprocal", kind.to_ascii_uppercase())) {
            emit::rewrite(parsed, *index, &notes, other, changes)?;
        }
    }
    loops::apply(parsed, &notes, changes)?;
    want_underflow(parsed, changes)
}

/// Makes functions of the C library raise flags.
pub(super) fn apply_to_c_library(
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let notes = Notes::add(changes);
    raise_in(C_LIBRARY, parsed, &notes, changes)?;
    for name in FINITE.split_ascii_whitespace() {
        for index in parsed.named(name) {
            let parameters = parsed.code(*index).map_or(0, |(_, parameters)| parameters as u32);
            let copies = changes.both(*index)?;
            let body = unless_finite(name.ends_with('f'), parameters, copies);
            changes.replace(*index, body);
        }
    }
    forced(parsed, changes)
}

/// Makes all functions with these names raise flags.
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
pub(super) fn calls(parsed: &Parsed<'_>, index: u32, callee: u32) -> Result<bool, IntegersError> {
    let (body, _) = parsed.code(index).ok_or(IntegersError::Missing("code of a scalar"))?;
    for operator in body.get_operators_reader()? {
        if matches!(operator?, Operator::Call { function_index } if function_index == callee) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A function that raises no flag if its result is finite. Otherwise, or if the code asks for
/// underflow, it runs again with flags.
fn unless_finite(is_single: bool, parameters: u32, copies: Copies) -> Function {
    let ty = if is_single {
        ValType::F32
    } else {
        ValType::F64
    };
    let mut function = Function::new([(1, ty)]);
    let mut code = function.instructions();
    let pass = |code: &mut InstructionSink<'_>| {
        for parameter in 0..parameters {
            code.local_get(parameter);
        }
    };
    pass(&mut code);
    code.call(copies.was).local_tee(parameters);
    if is_single {
        code.f32_abs().f32_const(f32::INFINITY.into()).f32_lt();
    } else {
        code.f64_abs().f64_const(f64::INFINITY.into()).f64_lt();
    }
    code.i32_const(0).i32_load(at(STATUS)).i32_const(WANTED).i32_and().i32_eqz().i32_and();
    code.if_(BlockType::Empty).local_get(parameters).return_().end();
    pass(&mut code);
    code.call(copies.changed).end();
    function
}

/// Restores computations of the C library that only raise flags, and that the compiler removed.
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
    // It returns a number for most values below 1.
    for name in ["acosh", "acoshf"] {
        changes.wrap(parsed.function(name)?, |inner| {
            let mut function = Function::new([]);
            let mut code = function.instructions();
            code.local_get(0);
            if name.ends_with('f') {
                code.f32_const(1.0_f32.into()).f32_lt().if_(BlockType::Empty);
                flags::raise(&mut code, Flag::Invalid);
                code.f32_const(f32::NAN.into()).return_().end();
            } else {
                code.f64_const(1.0_f64.into()).f64_lt().if_(BlockType::Empty);
                flags::raise(&mut code, Flag::Invalid);
                code.f64_const(f64::NAN.into()).return_().end();
            }
            code.local_get(0).call(inner).end();
            function
        })?;
    }
    // For `exp` and similar functions, if the result may not be a normal number.
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

/// Records that the code asks for underflow, when `np.errstate` or a similar object is created.
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
