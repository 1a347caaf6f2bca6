//! Code shared by the changed loops.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::super::patterns::{aligned, at};

/// Whether 32-bit integers are signed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Signed,
    Unsigned,
}

/// The function that reports an overflow.
#[derive(Clone, Copy)]
pub(super) struct Teller(pub u32);

impl Teller {
    /// Calls it if the flag in `bad` is set.
    pub(super) fn tell_if(self, code: &mut InstructionSink<'_>, bad: u32) {
        code.local_get(bad).if_(BlockType::Empty);
        code.call(self.0).end();
    }
}

impl Sign {
    /// Pushes the integer at the address on the stack, in 64 bits.
    pub(super) fn load(self, code: &mut InstructionSink<'_>) {
        match self {
            Self::Signed => code.i64_load32_s(aligned(0, 0)),
            Self::Unsigned => code.i64_load32_u(aligned(0, 0)),
        };
    }

    /// Pushes whether `local` exceeds 32 bits.
    pub(super) fn does_not_fit(self, code: &mut InstructionSink<'_>, local: u32) {
        code.local_get(local);
        match self {
            Self::Signed => {
                code.i32_wrap_i64().i64_extend_i32_s().local_get(local).i64_ne();
            }
            Self::Unsigned => {
                code.i64_const(32).i64_shr_u().i64_const(0).i64_ne();
            }
        }
    }
}

/// The locals of a function that iterates over arrays.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// The parameter with the addresses of arrays; the number of elements and the strides follow
    /// it.
    pub arrays: u32,
    /// First local after the parameters.
    pub locals: u32,
}

impl Frame {
    pub(super) fn new(arrays: u32, parameters: u32) -> (Self, Function) {
        let locals = Function::new([(8, ValType::I32), (4, ValType::I64), (1, ValType::F64)]);
        let frame = Self {
            arrays,
            locals: parameters,
        };
        (frame, locals)
    }

    pub(super) fn bad(self) -> u32 {
        self.locals
    }

    pub(super) fn left(self) -> u32 {
        self.locals + 1
    }

    /// One of six 32-bit locals.
    pub(super) fn place(self, which: u32) -> u32 {
        self.locals + 2 + which
    }

    /// One of four 64-bit locals.
    pub(super) fn number(self, which: u32) -> u32 {
        self.locals + 8 + which
    }

    pub(super) fn float(self) -> u32 {
        self.locals + 12
    }

    /// Records whether `local` does not fit.
    pub(super) fn note(self, code: &mut InstructionSink<'_>, sign: Sign, local: u32) {
        sign.does_not_fit(code, local);
        self.remember(code);
    }

    /// Records the flag on the stack.
    pub(super) fn remember(self, code: &mut InstructionSink<'_>) {
        code.local_get(self.bad()).i32_or().local_set(self.bad());
    }

    /// Advances the places of the arrays in `slots` from element to element.
    pub(super) fn walk(
        self,
        code: &mut InstructionSink<'_>,
        slots: &[u64],
        body: impl FnOnce(&mut InstructionSink<'_>),
    ) {
        code.local_get(self.arrays + 1).i32_load(at(0)).local_set(self.left());
        for (which, slot) in (0..).zip(slots) {
            code.local_get(self.arrays).i32_load(at(4 * slot)).local_set(self.place(which));
        }
        self.count_down(code, self.left(), |code| {
            body(code);
            for (which, slot) in (0..).zip(slots) {
                code.local_get(self.arrays + 2).i32_load(at(4 * slot));
                code.local_get(self.place(which)).i32_add().local_set(self.place(which));
            }
        });
    }

    /// Repeats code as often as `left` says.
    pub(super) fn count_down(
        self,
        code: &mut InstructionSink<'_>,
        left: u32,
        body: impl FnOnce(&mut InstructionSink<'_>),
    ) {
        code.block(BlockType::Empty).loop_(BlockType::Empty);
        code.local_get(left).i32_const(0).i32_le_s().br_if(1);
        body(code);
        code.local_get(left).i32_const(1).i32_sub().local_set(left);
        code.br(0).end().end();
    }
}

/// Passes all parameters on to a function.
pub(super) fn pass_on(code: &mut InstructionSink<'_>, parameters: u32, inner: u32) {
    for parameter in 0..parameters {
        code.local_get(parameter);
    }
    code.call(inner);
}
