//! Overflows: makes numpy's loops over 32-bit integers report results that do not fit. Only tests
//! apply this pass, to find places where a library computes in 32 bits and Linux in 64.
//!
//! A loop that adds, multiplies or the like is replaced by a loop that computes in 64 bits and
//! stores the lower 32, with the same results. The operands of a cast, a power or an `arange` are
//! checked before it. If a number does not fit, the operation's name and Python's traceback are
//! written to stderr.

mod code;
mod loops;

use wasm_encoder::Function;
use wasm_encoder::Instruction;
use wasmparser::{FuncType, Operator, ValType};

use super::IntegersError;
use super::addresses::Addresses;
use super::parsed::{Changes, Parsed};
use super::patterns::at;
use code::{Sign, Teller};
use loops::{Binary, Source, Unary};

/// numpy's names of 32-bit integers.
const TYPES: [(&str, Sign); 4] = [
    ("INT", Sign::Signed),
    ("LONG", Sign::Signed),
    ("UINT", Sign::Unsigned),
    ("ULONG", Sign::Unsigned),
];

/// Changes the module.
pub(crate) fn apply(module: &[u8]) -> Result<Vec<u8>, IntegersError> {
    let parsed = Parsed::new(module)?;
    let mut detector = Detector {
        addresses: Addresses::find(&parsed)?,
        parsed: &parsed,
        changes: Changes::new(&parsed),
    };
    for (ty, sign) in TYPES {
        detector.arrays(ty, sign)?;
        detector.scalars(&ty.to_lowercase(), sign)?;
        detector.casts(&ty.to_lowercase(), ty, sign)?;
    }
    detector.changes.finish()
}

struct Detector<'p, 'a> {
    parsed: &'p Parsed<'a>,
    addresses: Addresses,
    changes: Changes<'p, 'a>,
}

impl Detector<'_, '_> {
    /// Adds the function that reports an operation.
    fn teller(&mut self, name: &str) -> Result<Teller, IntegersError> {
        const STDERR: i32 = 2;
        const STACK: u32 = 0;
        const SIZE: i32 = 64;
        const TEXT: u32 = 0;
        let mut text = format!("overflow in {name}: ").into_bytes();
        let length = (text.len() as u32).cast_signed();
        text.resize(SIZE as usize, 0);
        let mut function = Function::new([(1, wasm_encoder::ValType::I32)]);
        let code = &mut function.instructions();
        code.global_get(STACK).i32_const(SIZE).i32_sub().local_tee(TEXT).global_set(STACK);
        for (offset, piece) in (0..).step_by(8).zip(text.as_chunks().0) {
            code.local_get(TEXT).i64_const(i64::from_le_bytes(*piece)).i64_store(at(offset));
        }
        code.i32_const(STDERR).local_get(TEXT).i32_const(length);
        code.call(self.parsed.taking("_Py_write_noraise", 3)?).drop();
        code.i32_const(STDERR).i32_const(0).i32_load(at(self.addresses.thread_state));
        code.call(self.parsed.taking("PyUnstable_DumpTraceback", 2)?).drop();
        code.local_get(TEXT).i32_const(SIZE).i32_add().global_set(STACK).end();
        Ok(Teller(self.changes.add_of_type(FuncType::new([], []), function)))
    }

    /// Returns the function with this unique name.
    fn function(&self, name: &str) -> Result<u32, IntegersError> {
        match self.parsed.named(name) {
            [index] => Ok(*index),
            _ => Err(IntegersError::Missing("loop over 32-bit integers")),
        }
    }

    /// Replaces the body of a loop.
    fn replace(
        &mut self,
        name: &str,
        body: impl FnOnce(Teller) -> Function,
    ) -> Result<u32, IntegersError> {
        let index = self.function(name)?;
        let teller = self.teller(name)?;
        self.changes.wrap(index, |_| body(teller))?;
        Ok(index)
    }

    /// Makes a function check its operands first.
    fn look_before(
        &mut self,
        index: u32,
        name: &str,
        body: impl FnOnce(Teller, u32) -> Function,
    ) -> Result<(), IntegersError> {
        let teller = self.teller(name)?;
        self.changes.wrap(index, |inner| body(teller, inner))
    }

    fn arrays(&mut self, ty: &str, sign: Sign) -> Result<(), IntegersError> {
        let binary = [
            ("add", Binary::Add),
            ("subtract", Binary::Subtract),
            ("multiply", Binary::Multiply),
            ("left_shift", Binary::Shift),
        ];
        for (name, operation) in binary {
            self.replace(&format!("{ty}_{name}"), |teller| loops::binary(teller, operation, sign))?;
            if !matches!(operation, Binary::Shift) {
                let name = format!("{ty}_{name}_indexed");
                self.replace(&name, |teller| loops::indexed(teller, operation, sign))?;
            }
        }
        let unary = [
            ("square", Unary::Square),
            ("negative", Unary::Negative),
            ("absolute", Unary::Absolute),
        ];
        for (name, operation) in unary {
            if sign == Sign::Signed || matches!(operation, Unary::Square) {
                self.replace(&format!("{ty}_{name}"), |teller| {
                    loops::unary(teller, operation, sign)
                })?;
            }
        }
        // The functions for vectors and matrices call it.
        let dot = self.replace(&format!("{ty}_dot"), |teller| loops::dot(teller, sign))?;
        self.replace(&format!("{ty}_matmul"), |_| loops::matmul(dot))?;
        self.einsum(ty, sign)?;
        let name = format!("{ty}_power");
        let power = self.function(&name)?;
        self.look_before(power, &name, |teller, inner| loops::power(teller, inner, sign))?;
        let name = format!("{ty}_fill");
        let fill = self.function(&name)?;
        self.look_before(fill, &name, |teller, inner| loops::fill(teller, inner, sign))
    }

    fn einsum(&mut self, ty: &str, sign: Sign) -> Result<(), IntegersError> {
        let ty = ty.to_lowercase();
        let mut variants = Vec::new();
        for count in ["one", "two", "three", "any"] {
            for how in ["", "contig_", "outstride0_"] {
                variants.push(format!("{how}{count}"));
            }
        }
        variants.push("contig_outstride0_one".to_owned());
        for operands in ["stride0_contig", "contig_stride0"] {
            for result in ["outstride0", "outcontig"] {
                variants.push(format!("{operands}_{result}_two"));
            }
        }
        variants.push("contig_contig_outstride0_two".to_owned());
        for variant in variants {
            let name = format!("{ty}_sum_of_products_{variant}");
            self.replace(&name, |teller| loops::sum_of_products(teller, sign))?;
        }
        Ok(())
    }

    /// numpy's scalars check their results and warn, except powers.
    fn scalars(&mut self, ty: &str, sign: Sign) -> Result<(), IntegersError> {
        let give = self.parsed.taking("PyUFunc_GiveFloatingpointErrors", 2)?;
        let two = [ValType::I32; 2];
        for operation in ["add", "subtract", "multiply", "negative", "absolute", "power"] {
            let name = format!("{ty}_{operation}");
            for index in self.parsed.named(&name) {
                let is_power = operation == "power";
                // The interpreter has functions with the same names.
                if is_power || super::floats::calls(self.parsed, *index, give)? {
                    let teller = self.teller(&name)?;
                    let ty = FuncType::new(two, [ValType::I32]);
                    let body = if is_power {
                        loops::product(teller, sign)
                    } else {
                        loops::give(teller, give)
                    };
                    let instead = self.changes.add_of_type(ty, body);
                    let is = |operator: &Operator<'_>| match operator {
                        Operator::I32Mul => is_power,
                        Operator::Call { function_index } => !is_power && *function_index == give,
                        _ => false,
                    };
                    self.changes.replace_each(*index, is, &Instruction::Call(instead))?;
                }
            }
        }
        Ok(())
    }

    fn casts(&mut self, to: &str, upper: &str, sign: Sign) -> Result<(), IntegersError> {
        for (from, source) in loops::SOURCES {
            if !source.may_not_fit(sign) {
                continue;
            }
            for how in ["_aligned_contig_cast", "_contig_cast", "_aligned_cast", "_cast"] {
                let name = format!("{how}_{from}_to_{to}");
                let index = self.function(&name)?;
                let name = format!("{from}_to_{to}");
                self.look_before(index, &name, |teller, inner| {
                    loops::cast(teller, inner, *source, sign)
                })?;
            }
        }
        for from in ["DATETIME", "TIMEDELTA"] {
            let name = format!("{from}_to_{upper}");
            let index = self.function(&name)?;
            self.look_before(index, &name, |teller, inner| {
                loops::legacy_cast(teller, inner, Source::Long, sign)
            })?;
        }
        Ok(())
    }
}
