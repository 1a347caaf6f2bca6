//! Emits the code that replaces an operation.

use std::ops::Range;

use wasm_encoder::{BlockType, Encode, InstructionSink, ValType};
use wasmparser::{FunctionBody, Operator};

use super::super::IntegersError;
use super::super::parsed::{Changes, Parsed};
use super::super::patterns::aligned;
use super::casts::{Cast, Casts};
use super::flags::{Notes, STATUS, WANTED};

/// Locals added to a function: operands and result of either width, the number to convert, and the
/// limits of a result.
const ADDED: [(u32, ValType); 4] =
    [(4, ValType::F64), (3, ValType::F32), (2, ValType::I64), (2, ValType::I32)];

/// Bits of infinity without the sign, shifted left by one: any value that is not less is not
/// finite.
const INFINITE: i64 = 0xffe0_0000_0000_0000_u64.cast_signed();
const INFINITE_SINGLE: i32 = 0xff00_0000_u32.cast_signed();

/// Distance from [`WANTED`] to the smallest exponent of a normal number, shifted in the same way.
const TO_NORMAL: i64 = 53 - WANTED.trailing_zeros() as i64;
const TO_NORMAL_SINGLE: i32 = 24 - WANTED.trailing_zeros().cast_signed();

/// Changes in addition to operations.
#[derive(Clone, Copy, Default)]
pub(super) struct Other {
    /// Kind of the conversions to integers.
    pub cast: Option<Cast>,
    /// A function whose calls are redirected, with the target.
    pub call: Option<(u32, u32)>,
    /// If set, only conversions are changed, each according to its instruction.
    pub conversions: Option<Casts>,
}

/// Makes the operations in the function `index` raise flags, and applies `other`.
pub(super) fn rewrite(
    parsed: &Parsed<'_>,
    index: u32,
    notes: &Notes,
    other: Other,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let (body, parameters) =
        parsed.code(index).ok_or(IntegersError::Missing("code of an operation on floats"))?;
    let (header, locals) = locals(body)?;
    let emit = Emit {
        first: parameters as u32 + locals,
        notes,
        other,
    };
    let operators: Vec<(Operator<'_>, u64)> =
        body.get_operators_reader()?.into_iter_with_offsets().collect::<Result<_, _>>()?;
    let mut tiny = false;
    let mut is_changed = false;
    for pair in operators.windows(2) {
        let [(operator, from), (_, to)] = pair else {
            continue;
        };
        let mut code = Vec::new();
        if emit.instead(operator, &mut InstructionSink::new(&mut code)) {
            is_changed = true;
            tiny |= may_be_tiny(operator);
            changes.splice(index, *from..*to, code);
        }
    }
    if is_changed {
        let mut code = with_added(body)?;
        if tiny {
            emit.limits(&mut InstructionSink::new(&mut code));
        }
        changes.splice(index, header, code);
    }
    Ok(())
}

/// Returns the range of the declarations of locals, and their number.
fn locals(body: &FunctionBody<'_>) -> Result<(Range<u64>, u32), IntegersError> {
    let mut reader = body.get_locals_reader()?;
    let mut locals = 0;
    for _ in 0..reader.get_count() {
        locals += reader.read()?.0;
    }
    Ok((body.range().start..reader.original_position(), locals))
}

/// Declares the function's locals and the added ones.
fn with_added(body: &FunctionBody<'_>) -> Result<Vec<u8>, IntegersError> {
    let mut reader = body.get_locals_reader()?;
    let count = reader.get_count();
    let mut code = Vec::new();
    (count + ADDED.len() as u32).encode(&mut code);
    for _ in 0..count {
        let (locals, ty) = reader.read()?;
        let ty = ValType::try_from(ty).map_err(|_| IntegersError::Missing("type of a local"))?;
        locals.encode(&mut code);
        ty.encode(&mut code);
    }
    for (locals, ty) in ADDED {
        locals.encode(&mut code);
        ty.encode(&mut code);
    }
    Ok(code)
}

fn may_be_tiny(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::F64Mul
            | Operator::F64Div
            | Operator::F32Mul
            | Operator::F32Div
            | Operator::F32DemoteF64
    )
}

struct Emit<'a> {
    /// First added local.
    first: u32,
    notes: &'a Notes,
    other: Other,
}

impl Emit<'_> {
    fn double(&self, which: u32) -> u32 {
        self.first + which
    }

    fn number(&self) -> u32 {
        self.first + 3
    }

    fn single(&self, which: u32) -> u32 {
        self.first + 4 + which
    }

    /// The smallest normal number or 0, and infinity minus that.
    fn limit(&self, which: u32) -> u32 {
        self.first + 7 + which
    }

    fn limit_single(&self, which: u32) -> u32 {
        self.first + 9 + which
    }

    /// Sets the limits, depending on whether the code asks for underflow.
    fn limits(&self, code: &mut InstructionSink<'_>) {
        code.i64_const(INFINITE);
        code.i32_const(0).i64_load32_u(aligned(STATUS, 2)).i64_const(WANTED.into()).i64_and();
        code.i64_const(TO_NORMAL).i64_shl().local_tee(self.limit(0));
        code.i64_sub().local_set(self.limit(1));
        code.i32_const(INFINITE_SINGLE);
        code.i32_const(0).i32_load(aligned(STATUS, 2)).i32_const(WANTED).i32_and();
        code.i32_const(TO_NORMAL_SINGLE).i32_shl().local_tee(self.limit_single(0));
        code.i32_sub().local_set(self.limit_single(1));
    }

    /// Writes the replacement of an operator. Returns false if it is unchanged.
    fn instead(&self, operator: &Operator<'_>, code: &mut InstructionSink<'_>) -> bool {
        if self.other.conversions.is_some() {
            return self.convert(operator, code);
        }
        let (double, single) = (&self.notes.double, &self.notes.single);
        match operator {
            Operator::F64Add => {
                self.doubles(code, double.sum, |code| code.f64_add());
            }
            Operator::F64Sub => {
                self.doubles(code, double.sum, |code| code.f64_sub());
            }
            Operator::F64Mul => {
                self.doubles(code, double.product, |code| code.f64_mul());
            }
            Operator::F64Div => {
                self.doubles(code, double.quotient, |code| code.f64_div());
            }
            Operator::F32Add => {
                self.singles(code, single.sum, |code| code.f32_add());
            }
            Operator::F32Sub => {
                self.singles(code, single.sum, |code| code.f32_sub());
            }
            Operator::F32Mul => {
                self.singles(code, single.product, |code| code.f32_mul());
            }
            Operator::F32Div => {
                self.singles(code, single.quotient, |code| code.f32_div());
            }
            Operator::F64Sqrt => {
                code.local_tee(self.double(0)).local_tee(self.double(1)).f64_sqrt();
                self.note_double(code, double.sum);
            }
            Operator::F32Sqrt => {
                code.local_tee(self.single(0)).local_tee(self.single(1)).f32_sqrt();
                self.note_single(code, single.sum);
            }
            Operator::F32DemoteF64 => {
                code.local_tee(self.number()).f32_demote_f64().local_tee(self.single(2));
                self.beyond_single(code, true);
                code.if_(BlockType::Empty).local_get(self.number()).local_get(self.single(2));
                code.call(self.notes.demoted).end().local_get(self.single(2));
            }
            _ => return self.convert(operator, code),
        }
        true
    }

    /// Replaces redirected calls and conversions to integers.
    fn convert(&self, operator: &Operator<'_>, code: &mut InstructionSink<'_>) -> bool {
        if let (Operator::Call { function_index }, Some((from, to))) = (operator, self.other.call)
            && *function_index == from
        {
            code.call(to);
            return true;
        }
        let named = |casts: Casts| casts.of(operator);
        let Some(cast) = self.other.cast.or_else(|| self.other.conversions.and_then(named)) else {
            return false;
        };
        match operator {
            Operator::I32TruncSatF32S
            | Operator::I32TruncSatF32U
            | Operator::I64TruncSatF32S
            | Operator::I64TruncSatF32U => {
                code.f64_promote_f32();
            }
            Operator::I32TruncSatF64S
            | Operator::I32TruncSatF64U
            | Operator::I64TruncSatF64S
            | Operator::I64TruncSatF64U => {}
            _ => return false,
        }
        code.local_set(self.number());
        cast.convert(code, self.number());
        true
    }

    fn doubles(
        &self,
        code: &mut InstructionSink<'_>,
        note: u32,
        operation: impl for<'s, 'b> FnOnce(&'s mut InstructionSink<'b>) -> &'s mut InstructionSink<'b>,
    ) {
        code.local_set(self.double(1)).local_tee(self.double(0)).local_get(self.double(1));
        operation(code);
        self.note_double(code, note);
    }

    fn singles(
        &self,
        code: &mut InstructionSink<'_>,
        note: u32,
        operation: impl for<'s, 'b> FnOnce(&'s mut InstructionSink<'b>) -> &'s mut InstructionSink<'b>,
    ) {
        code.local_set(self.single(1)).local_tee(self.single(0)).local_get(self.single(1));
        operation(code);
        self.note_single(code, note);
    }

    /// Keeps the result on the stack, and calls `note` if it exceeds the limits.
    fn note_double(&self, code: &mut InstructionSink<'_>, note: u32) {
        code.local_tee(self.double(2));
        code.i64_reinterpret_f64().i64_const(1).i64_shl();
        if note == self.notes.double.sum {
            code.i64_const(INFINITE);
        } else {
            code.local_get(self.limit(0)).i64_sub().local_get(self.limit(1));
        }
        code.i64_ge_u().if_(BlockType::Empty);
        for which in 0..3 {
            code.local_get(self.double(which));
        }
        code.call(note).end().local_get(self.double(2));
    }

    fn note_single(&self, code: &mut InstructionSink<'_>, note: u32) {
        code.local_tee(self.single(2));
        self.beyond_single(code, note != self.notes.single.sum);
        code.if_(BlockType::Empty);
        for which in 0..3 {
            code.local_get(self.single(which));
        }
        code.call(note).end().local_get(self.single(2));
    }

    /// Pushes whether the result on the stack exceeds the limits.
    fn beyond_single(&self, code: &mut InstructionSink<'_>, or_tiny: bool) {
        code.i32_reinterpret_f32().i32_const(1).i32_shl();
        if or_tiny {
            code.local_get(self.limit_single(0)).i32_sub().local_get(self.limit_single(1));
        } else {
            code.i32_const(INFINITE_SINGLE);
        }
        code.i32_ge_u();
    }
}
