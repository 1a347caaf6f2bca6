//! Writes a function's body, with its fuel checks.

use wasm_encoder::{BlockType, Function, Instruction as I, ValType};

use super::OVERRUN;

/// Indices of the functions and globals that the meter adds.
#[derive(Clone, Copy)]
pub(super) struct Added {
    pub fuel: u32,
    pub refuel: u32,
    pub slow: u32,
    pub copy: u32,
    pub fill: u32,
}

/// Number of operators of a fuel check.
pub(super) const LOOK: u64 = 10;

/// A body being written.
pub(super) struct Body {
    pub function: Function,
    pub added: Added,
    /// Positions of branches that are rarely taken.
    pub unlikely: Vec<u32>,
}

impl Body {
    pub(super) fn new(added: Added, locals: Vec<(u32, ValType)>) -> Self {
        Self {
            function: Function::new(locals),
            added,
            unlikely: Vec::new(),
        }
    }

    pub(super) fn one(&mut self, instruction: &I<'_>) {
        self.function.instruction(instruction);
    }

    pub(super) fn all(&mut self, instructions: &[I<'_>]) {
        for instruction in instructions {
            self.one(instruction);
        }
    }

    pub(super) fn unlikely(&mut self, branch: &I<'_>) {
        self.unlikely.push(self.function.byte_len() as u32);
        self.one(branch);
    }

    /// Subtracts `cost`, and calls the host if no fuel is left.
    pub(super) fn look(&mut self, cost: i64) {
        let Added { fuel, slow, .. } = self.added;
        self.all(&[I::GlobalGet(fuel), I::I64Const(cost), I::I64Sub, I::GlobalSet(fuel)]);
        self.all(&[I::GlobalGet(fuel), I::I64Const(0), I::I64LtS]);
        self.unlikely(&I::If(BlockType::Empty));
        self.all(&[I::Call(slow), I::End]);
    }

    /// Subtracts `cost` for each iteration of a quiet loop.
    pub(super) fn take_turns(&mut self, turns: u32, cost: i64) {
        let fuel = self.added.fuel;
        self.all(&[I::GlobalGet(fuel), I::LocalGet(turns), I::I64ExtendI32U, I::I64Const(cost)]);
        self.all(&[I::I64Mul, I::I64Sub, I::GlobalSet(fuel)]);
    }

    /// Subtracts more fuel than any guest has, and traps.
    pub(super) fn overrun(&mut self) {
        let fuel = self.added.fuel;
        self.all(&[I::GlobalGet(fuel), I::I64Const(OVERRUN), I::I64Sub, I::GlobalSet(fuel)]);
        self.one(&I::Unreachable);
    }
}
