//! Draws: makes numpy's legacy generator draw 64-bit integers.
//!
//! `RandomState` and the functions of `numpy.random` draw C longs, which have 32 bits here. A draw
//! that does not fit would be truncated or saturated. numpy stores draws in 64 bits before and
//! afterwards, so only the functions in between are changed: functions that draw, functions that
//! check parameters, and the function that converts draws to C longs.
//!
//! The number of trials of `binomial` and `multinomial` keeps the width of an address.

use wasm_encoder::{BlockType, Encode, Function, Instruction, InstructionSink, ValType};
use wasmparser::{FuncType, Operator};

use super::IntegersError;
use super::parsed::{Changes, Parsed};
use super::patterns::Step::{
    Call, Const, Const64, Convert, Extend, Float, LoadFloat, LtU64, Shl, Truncate,
};
use super::patterns::{Step, aligned, at, find};

const POISSON: &str = "npy_legacy_random_poisson";
const CHECK: &str = "__pyx_fuse_0__pyx_f_5numpy_6random_7_common_check_constraint";
const CHECK_INTEGER: &str = "__pyx_fuse_1__pyx_f_5numpy_6random_7_common_check_constraint";
const CHECK_ARRAY: &str = "__pyx_f_5numpy_6random_7_common_check_array_constraint";

/// Functions that compute entirely with C longs.
const WIDENED: [&str; 2] = ["legacy_logseries", "legacy_random_hypergeometric"];

const LARGEST: i32 = i32::MAX;
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// Addresses of the largest mean of a Poisson distribution, for C longs and for 64 bits.
const LONG_MEAN: u64 = 27_659_112;
const WIDE_MEAN: u64 = 27_659_120;

/// Offset of the function that draws 64 bits, in the structure of a bit generator.
const NEXT_64: u64 = 4;

pub(super) fn apply(
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let to_long = FuncType::new([wasmparser::ValType::F64], [wasmparser::ValType::I64]);
    let to_long = changes.add_of_type(to_long, converted());
    let poisson = parsed.function("random_poisson")?;
    let integer = parsed.function("PyLong_FromLongLong")?;

    let mut splice = |function, steps: &[Step], what, with: &dyn Fn(&mut InstructionSink<'_>)| {
        let offsets = find(parsed, function, steps, what)?;
        let mut code = Vec::new();
        with(&mut InstructionSink::new(&mut code));
        changes.splice(parsed.function(function)?, offsets[0]..offsets[steps.len()], code);
        Ok::<_, IntegersError>(())
    };
    for function in ["legacy_random_geometric", "legacy_random_zipf"] {
        splice(function, &[Truncate, Extend], "the draw", &|code| {
            code.call(to_long);
        })?;
    }
    splice("legacy_random_zipf", &[Float(f64::from(LARGEST))], "the largest draw", &|code| {
        code.f64_const(TWO_TO_63.into());
    })?;
    for function in ["legacy_random_poisson", "legacy_negative_binomial"] {
        splice(function, &[Call(POISSON), Extend], "the draw", &|code| {
            code.call(poisson);
        })?;
    }
    let doubled = [Call(POISSON), Const(1), Shl, Convert];
    splice("legacy_noncentral_chisquare", &doubled, "the draw", &|code| {
        code.call(poisson).i64_const(1).i64_shl().f64_convert_i64_s();
    })?;
    for function in [CHECK, CHECK_ARRAY] {
        splice(function, &[LoadFloat(LONG_MEAN)], "the largest mean", &|code| {
            code.f64_load(aligned(WIDE_MEAN, 3));
        })?;
    }
    splice(CHECK, &[Float(f64::from(LARGEST))], "the bound of integers", &|code| {
        code.f64_const(TWO_TO_63.into());
    })?;
    let bound = [Const64(i64::from(LARGEST) + 1), LtU64];
    splice(CHECK_INTEGER, &bound, "the bound of integers", &|code| {
        code.i64_const(i64::MIN).i64_lt_u();
    })?;
    let bound = [Const(LARGEST), Call("PyLong_FromLong")];
    splice(CHECK_ARRAY, &bound, "the bound of integers", &|code| {
        code.i64_const(i64::MAX).call(integer);
    })?;

    convert_as_on_linux("random_poisson", to_long, parsed, changes)?;
    for function in WIDENED {
        widen(function, to_long, parsed, changes)?;
    }
    changes.replace(parsed.function("legacy_random_binomial")?, binomial(parsed)?);
    let positive = parsed.function("npy_legacy_random_positive_int")?;
    let next = changes.ty(FuncType::new([wasmparser::ValType::I32], [wasmparser::ValType::I64]));
    changes.replace(positive, positive_int(next));
    let same = parsed.taking("PyObject_SelfIter", 1)?;
    changes.replace(
        parsed.taking("__pyx_f_5numpy_6random_6mtrand_int64_to_long", 1)?,
        as_they_are(same),
    );
    Ok(())
}

/// `(f64) -> i64`, with the result of x86-64: the smallest integer if the number does not fit.
fn converted() -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    code.local_get(0).f64_abs().f64_const(TWO_TO_63.into()).f64_lt();
    code.if_(BlockType::Result(ValType::I64)).local_get(0).i64_trunc_sat_f64_s();
    code.else_().i64_const(i64::MIN).end().end();
    function
}

/// Replaces all conversions to 64 bits in a function by `to_long`.
fn convert_as_on_linux(
    function: &'static str,
    to_long: u32,
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let is = |operator: &Operator<'_>| matches!(operator, Operator::I64TruncSatF64S);
    let index = parsed.function(function)?;
    changes.replace_each(index, is, &Instruction::Call(to_long)).map(drop)
}

/// Makes a drawing function compute in 64 bits: all its integers, including conditions and
/// addresses, except values read from memory, which have the types of its callees.
fn widen(
    function: &'static str,
    to_long: u32,
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let index = parsed.function(function)?;
    let other = |what| IntegersError::Other { function, what };
    let (body, parameters) = parsed.code(index).ok_or(IntegersError::Function(function))?;

    let mut reader = body.get_locals_reader()?;
    let count = reader.get_count();
    let mut header = Vec::new();
    (count + 1).encode(&mut header);
    let mut locals = parameters as u32;
    for _ in 0..count {
        let (some, ty) = reader.read()?;
        some.encode(&mut header);
        match ty {
            wasmparser::ValType::F64 => ValType::F64,
            wasmparser::ValType::I32 => ValType::I64,
            _ => return Err(other("its locals")),
        }
        .encode(&mut header);
        locals += some;
    }
    // Replaces the first parameter, the address of the generator.
    let generator = locals;
    1_u32.encode(&mut header);
    ValType::I64.encode(&mut header);
    InstructionSink::new(&mut header).local_get(0).i64_extend_i32_u().local_set(generator);
    changes.splice(index, body.range().start..reader.original_position(), header);

    for pair in parsed.operators(index)?.windows(2) {
        let [(operator, from), (_, to)] = pair else {
            continue;
        };
        let mut code = Vec::new();
        let is_known = wide(operator, generator, to_long, &mut InstructionSink::new(&mut code));
        match is_known {
            Known::Changed => changes.splice(index, *from..*to, code),
            Known::Same => {}
            Known::No => return Err(other("an instruction that is not known")),
        }
    }
    Ok(())
}

enum Known {
    Changed,
    Same,
    No,
}

/// Writes the replacement of an instruction.
fn wide(
    operator: &Operator<'_>,
    generator: u32,
    to_long: u32,
    code: &mut InstructionSink<'_>,
) -> Known {
    match operator {
        Operator::LocalGet { local_index: 0 } => code.local_get(generator),
        Operator::LocalSet { local_index: 0 } => code.local_set(generator),
        Operator::LocalTee { local_index: 0 } => code.local_tee(generator),
        Operator::I32WrapI64 | Operator::I64ExtendI32S | Operator::I64ExtendI32U => code,
        Operator::I32Const { value } => code.i64_const((*value).into()),
        Operator::I32Add => code.i64_add(),
        Operator::I32Sub => code.i64_sub(),
        Operator::I32Eqz => code.i64_eqz().i64_extend_i32_u(),
        Operator::I32LtS => code.i64_lt_s().i64_extend_i32_u(),
        Operator::I32GtS => code.i64_gt_s().i64_extend_i32_u(),
        Operator::I32GeS => code.i64_ge_s().i64_extend_i32_u(),
        Operator::F64Eq => code.f64_eq().i64_extend_i32_u(),
        Operator::F64Lt => code.f64_lt().i64_extend_i32_u(),
        Operator::F64Gt => code.f64_gt().i64_extend_i32_u(),
        Operator::F64Le => code.f64_le().i64_extend_i32_u(),
        Operator::F64Ge => code.f64_ge().i64_extend_i32_u(),
        Operator::I32Load { memarg } => code.i32_wrap_i64().i32_load(at(memarg.offset)),
        Operator::Select => code.i32_wrap_i64().select(),
        Operator::BrIf { relative_depth } => code.i32_wrap_i64().br_if(*relative_depth),
        Operator::I32TruncSatF64S => code.call(to_long),
        Operator::F64ConvertI32S => code.f64_convert_i64_s(),
        Operator::F64ConvertI32U => code.f64_convert_i64_u(),
        Operator::LocalGet { .. }
        | Operator::LocalSet { .. }
        | Operator::LocalTee { .. }
        | Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::Return
        | Operator::End
        | Operator::Call { .. }
        | Operator::CallIndirect { .. }
        | Operator::I64Const { .. }
        | Operator::F64Const { .. }
        | Operator::F64Add
        | Operator::F64Sub
        | Operator::F64Mul
        | Operator::F64Div
        | Operator::F64Floor
        | Operator::F64Sqrt => return Known::Same,
        _ => return Known::No,
    };
    Known::Changed
}

/// `(generator, p, n, state) -> draw`, with the functions of the new generators. If `n` is the
/// largest C long, `n + 1` would overflow.
fn binomial(parsed: &Parsed<'_>) -> Result<Function, IntegersError> {
    const P: u32 = 1;
    const N: u32 = 2;
    const SMALLER: u32 = 4;
    const DRAWN: u32 = 5;
    const BY_INVERSION: f64 = 30.0;
    let mut function = Function::new([(1, ValType::F64), (1, ValType::I64)]);
    let mut code = function.instructions();
    let is_small = |code: &mut InstructionSink<'_>| {
        code.local_get(P).f64_const(0.5.into()).f64_le();
    };
    code.local_get(P).f64_const(1.0.into()).local_get(P).f64_sub();
    is_small(&mut code);
    code.select().local_set(SMALLER);
    code.local_get(SMALLER).local_get(N).f64_convert_i64_s().f64_mul();
    code.f64_const(BY_INVERSION.into()).f64_le();
    code.if_(BlockType::Result(ValType::I64));
    for (name, end) in [("random_binomial_inversion", false), ("random_binomial_btpe", true)] {
        code.local_get(0).local_get(N).local_get(SMALLER).local_get(3);
        code.call(parsed.function(name)?);
        if end {
            code.end();
        } else {
            code.else_();
        }
    }
    code.local_set(DRAWN);
    code.local_get(DRAWN).local_get(N).local_get(DRAWN).i64_sub();
    is_small(&mut code);
    code.select().end();
    Ok(function)
}

/// `(generator) -> i64`: a random integer of 63 bits.
fn positive_int(next: u32) -> Function {
    const GENERATOR: u32 = 0;
    let mut function = Function::new([]);
    let mut code = function.instructions();
    code.local_get(GENERATOR).i32_load(at(0));
    code.local_get(GENERATOR).i32_load(at(NEXT_64));
    code.call_indirect(0, next).i64_const(1).i64_shr_u().end();
    function
}

/// `(draws) -> draws`: returns a Python integer or a 64-bit array, with a new reference.
fn as_they_are(same: u32) -> Function {
    let mut function = Function::new([]);
    function.instructions().local_get(0).call(same).end();
    function
}
