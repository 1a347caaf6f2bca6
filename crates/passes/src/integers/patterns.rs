//! Patterns: sequences of instructions that identify a place in a function, and the places in numpy
//! where the default integer is a constant.

use std::ops::Range;

use wasm_encoder::{InstructionSink, MemArg, MemArgTarget};
use wasmparser::Operator;

use super::offsets::{BUILTIN_DESCRIPTORS, OBJECT_TYPE};
use super::parsed::{Changes, Parsed};
use super::{Functions, IntegersError, LONG, LONG_LONG, UNSIGNED};

/// A pattern for one instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Const(i32),
    Const64(i64),
    Call(&'static str),
    Get(u32),
    Set(u32),
    Tee(u32),
    /// `i32.load` with this offset.
    Load(u64),
    /// `i32.load8_u` with this offset.
    Load8(u64),
    /// `i32.load16_u` with this offset.
    Load16(u64),
    BrIf(u32),
    Add,
    Add64,
    And,
    Shl,
    Eq,
    Ne,
    LeU,
    LtU,
    Select,
    /// `f64.const`.
    Float(f64),
    /// `f64.load` with this offset.
    LoadFloat(u64),
    /// `i32.trunc_sat_f64_s`, `i64.extend_i32_s` and `f64.convert_i32_s`.
    Truncate,
    Extend,
    Convert,
    LtU64,
}

impl Step {
    fn is(self, operator: &Operator<'_>, parsed: &Parsed<'_>) -> Result<bool, IntegersError> {
        Ok(match (self, operator) {
            (Self::Const(a), Operator::I32Const { value }) => a == *value,
            (Self::Const64(a), Operator::I64Const { value }) => a == *value,
            (Self::Call(name), Operator::Call { function_index }) => {
                parsed.function(name)? == *function_index
            }
            (Self::Get(a), Operator::LocalGet { local_index })
            | (Self::Set(a), Operator::LocalSet { local_index })
            | (Self::Tee(a), Operator::LocalTee { local_index }) => a == *local_index,
            (Self::Load(offset), Operator::I32Load { memarg })
            | (Self::Load8(offset), Operator::I32Load8U { memarg })
            | (Self::Load16(offset), Operator::I32Load16U { memarg })
            | (Self::LoadFloat(offset), Operator::F64Load { memarg }) => offset == memarg.offset,
            (Self::BrIf(a), Operator::BrIf { relative_depth }) => a == *relative_depth,
            (Self::Add, Operator::I32Add)
            | (Self::Add64, Operator::I64Add)
            | (Self::And, Operator::I32And)
            | (Self::Shl, Operator::I32Shl)
            | (Self::Eq, Operator::I32Eq)
            | (Self::Ne, Operator::I32Ne)
            | (Self::LeU, Operator::I32LeU)
            | (Self::LtU, Operator::I32LtU)
            | (Self::Select, Operator::Select)
            | (Self::Truncate, Operator::I32TruncSatF64S)
            | (Self::Extend, Operator::I64ExtendI32S)
            | (Self::Convert, Operator::F64ConvertI32S)
            | (Self::LtU64, Operator::I64LtU) => true,
            (Self::Float(a), Operator::F64Const { value }) => a.to_bits() == value.bits(),
            _ => false,
        })
    }
}

/// Finds the unique place of `steps` in a function. Returns the start of each step, and the end of
/// the last.
pub(super) fn find(
    parsed: &Parsed<'_>,
    function: &'static str,
    steps: &[Step],
    what: &'static str,
) -> Result<Vec<u64>, IntegersError> {
    let operators = parsed.operators(parsed.function(function)?)?;
    let mut found = None;
    for (at, window) in operators.windows(steps.len() + 1).enumerate() {
        let mut holds = true;
        for (step, (operator, _)) in steps.iter().zip(window) {
            holds = holds && step.is(operator, parsed)?;
        }
        if holds && found.replace(at).is_some() {
            return Err(IntegersError::Other { function, what });
        }
    }
    let at = found.ok_or(IntegersError::Other { function, what })?;
    Ok(operators[at..=at + steps.len()].iter().map(|(_, offset)| *offset).collect())
}

/// The replacement of some steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum With {
    /// The default integer of the caller.
    DefaultInt,
    /// The same for code that names the type `int`.
    NamedInt,
    /// The same for values.
    ValueInt,
    Const(i32),
    /// From the number of a small integer type minus two: the default integer, unsigned for an
    /// unsigned type.
    DefaultOfSignedness,
    /// The class of 64-bit integers.
    WideClass,
    /// `PyArray_FromArray` through `PyArray_FromAny`, which narrows indices.
    FromAny,
}

/// A place where a function is changed.
pub(super) struct Place {
    function: &'static str,
    what: &'static str,
    steps: &'static [Step],
    /// The replaced steps.
    replaced: Range<usize>,
    with: With,
}

impl Place {
    pub(super) fn change(
        &self,
        parsed: &Parsed<'_>,
        functions: &Functions,
        changes: &mut Changes<'_, '_>,
    ) -> Result<(), IntegersError> {
        let offsets = find(parsed, self.function, self.steps, self.what)?;
        let range = offsets[self.replaced.start]..offsets[self.replaced.end];
        let mut code = Vec::new();
        let mut sink = InstructionSink::new(&mut code);
        match self.with {
            With::DefaultInt => sink.call(functions.default_int),
            With::NamedInt => sink.call(functions.named_int),
            With::ValueInt => sink.call(functions.value_int),
            With::Const(value) => sink.i32_const(value),
            // The numbers of signed types are odd: 1, 3, 5, 7, 9.
            With::DefaultOfSignedness => {
                sink.i32_const(UNSIGNED).i32_and().i32_eqz().call(functions.value_int).i32_add()
            }
            With::WideClass => sink
                .i32_const(0)
                .i32_load(at(u64::from(BUILTIN_DESCRIPTORS) + 4 * LONG_LONG as u64))
                .i32_load(at(OBJECT_TYPE)),
            With::FromAny => sink
                .i32_const(0)
                .i32_const(0)
                .i32_const(ALIGNED_NATIVE)
                .i32_const(0)
                .call(parsed.taking("PyArray_FromAny", 6)?),
        };
        changes.splice(parsed.function(self.function)?, range, code);
        Ok(())
    }
}

/// Flags of `PyArray_FromAny`.
const ALIGNED_NATIVE: i32 = 0x300;
const CARRAY: i32 = 0x501;
const FORCE_CAST: i32 = 0x10;
const SAME_KIND: i32 = 1 << 26;

/// An aligned word at an offset.
pub(super) fn at(offset: u64) -> MemArg {
    aligned(offset, 2)
}

/// Any value at an offset, aligned to a power of two.
pub(super) fn aligned(offset: u64, align: u32) -> MemArg {
    MemArg {
        offset,
        align,
        target: MemArgTarget::Memory(0),
        ordering: None,
    }
}

use Step::{
    Add, Add64, BrIf, Call, Const, Const64, Get, LeU, Load, Load8, LtU, Ne, Select, Set, Tee,
};

/// All places in numpy where the default integer is a constant or derived from one.
pub(super) const PLACES: &[Place] = &[
    // `np.array([1, 2])`: -1, and values that fit.
    Place {
        function: "discover_descriptor_from_pylong",
        what: "the type of -1",
        steps: &[Const(LONG), Call("PyArray_DescrFromType")],
        replaced: 0..1,
        with: With::ValueInt,
    },
    Place {
        function: "discover_descriptor_from_pylong",
        what: "the type of an integer that fits",
        steps: &[Const(LONG), Const(LONG_LONG), Get(2), Const64(1 << 31), Add64],
        replaced: 0..1,
        with: With::ValueInt,
    },
    // numpy caches results by operand types, so they must not depend on the first caller: if all
    // operands are Python integers, or one is and the other is a bool, the result is 64 bits for
    // all callers.
    Place {
        function: "int_default_descriptor",
        what: "the type of Python's integers",
        steps: &[Const(LONG), Call("PyArray_DescrFromType")],
        replaced: 0..1,
        with: With::Const(LONG_LONG),
    },
    Place {
        function: "int_common_dtype",
        what: "the common type of bool and int",
        steps: &[BrIf(1), Const(0), Load(27_642_972), Tee(2)],
        replaced: 1..3,
        with: With::WideClass,
    },
    Place {
        function: "_multiarray_umath_exec",
        what: "what stands for an integer of Python's in a ufunc",
        steps: &[
            Const(0),
            Const(0),
            Const(0),
            Const(LONG),
            Call("PyArray_DescrFromType"),
            Const(0),
            Call("PyArray_Zeros"),
        ],
        replaced: 3..4,
        with: With::Const(LONG_LONG),
    },
    Place {
        function: "PyArray_ArangeObj",
        what: "the least type",
        steps: &[Get(4), Const(LONG), Call("PyArray_DescrFromType"), Tee(3)],
        replaced: 1..2,
        with: With::DefaultInt,
    },
    // dtype=int
    Place {
        function: "_convert_from_any",
        what: "the type for int",
        steps: &[
            Get(0),
            Const(26_106_228),
            Ne,
            BrIf(0),
            Const(LONG),
            Call("PyArray_DescrFromType"),
        ],
        replaced: 4..5,
        with: With::NamedInt,
    },
    // sum, prod, cumsum and cumprod of narrower types.
    Place {
        function: "reducelike_promote_and_resolve",
        what: "the type of a sum",
        steps: &[Const(LONG), Set(9)],
        replaced: 0..1,
        with: With::ValueInt,
    },
    Place {
        function: "reducelike_promote_and_resolve",
        what: "the size below which a sum is wider",
        steps: &[Const(32), Add, Load(0), Const(3), LeU, BrIf(0)],
        replaced: 3..4,
        with: With::Const(7),
    },
    Place {
        function: "reducelike_promote_and_resolve",
        what: "the type of a sum by its sign",
        steps: &[Get(11), Load8(22_081_920), Set(9)],
        replaced: 1..2,
        with: With::DefaultOfSignedness,
    },
    // Indices computed by the user, which are therefore 64 bits wide.
    Place {
        function: "PyArray_SearchSorted",
        what: "the cast of the sorter",
        steps: &[
            Const(LONG),
            Call("PyArray_DescrFromType"),
            Const(ALIGNED_NATIVE),
            Call("PyArray_FromArray"),
        ],
        replaced: 2..4,
        with: With::FromAny,
    },
    Place {
        function: "arr_bincount",
        what: "the cast of a list",
        steps: &[
            Const(CARRAY | FORCE_CAST),
            Const(CARRAY),
            Get(2),
            Const(-1),
            Add,
            Const(10),
            LtU,
            Select,
        ],
        replaced: 0..1,
        with: With::Const(CARRAY | SAME_KIND),
    },
    Place {
        function: "arr_bincount",
        what: "the cast of an array",
        steps: &[Const(CARRAY | FORCE_CAST), Const(CARRAY), Get(5), Const(11), LtU, Select],
        replaced: 0..1,
        with: With::Const(CARRAY | SAME_KIND),
    },
];

#[cfg(test)]
mod tests {
    use wasm_encoder::{
        CodeSection, Function, FunctionSection, Module, NameMap, NameSection, TypeSection,
    };

    use super::super::parsed::{Changes, Parsed};
    use super::*;

    /// A module of two functions: `seven` contains 7 in `often` places, `other` contains 9.
    fn module(often: usize, names: &[(u32, &str)]) -> Vec<u8> {
        let mut types = TypeSection::new();
        types.ty().function([], [wasm_encoder::ValType::I32]);
        let mut functions = FunctionSection::new();
        functions.function(0).function(0);
        let mut code = CodeSection::new();
        let mut seven = Function::new([]);
        for _ in 0..often {
            seven.instructions().i32_const(7).call(1).i32_add().drop();
        }
        seven.instructions().i32_const(7).end();
        let mut other = Function::new([]);
        other.instructions().i32_const(9).end();
        code.function(&seven).function(&other);
        let mut map = NameMap::new();
        for (index, name) in names {
            map.append(*index, name);
        }
        let mut section = NameSection::new();
        section.functions(&map);
        let mut module = Module::new();
        module.section(&types).section(&functions).section(&code).section(&section);
        module.finish()
    }

    const NAMES: &[(u32, &str)] = &[(0, "seven"), (1, "other")];
    const WINDOW: &[Step] = &[Const(7), Call("other"), Add];

    #[test]
    fn a_window_is_found_where_there_is_one() {
        let module = module(1, NAMES);
        let parsed = Parsed::new(&module).unwrap();
        let offsets = find(&parsed, "seven", WINDOW, "it").unwrap();
        assert_eq!(offsets.len(), 4);
        assert_eq!(parsed.bytes(offsets[0]..offsets[1]), Some(&[0x41, 7][..]));
    }

    #[test]
    fn none_and_several_are_refused() {
        for often in [0, 2] {
            let module = module(often, NAMES);
            let parsed = Parsed::new(&module).unwrap();
            let error = find(&parsed, "seven", WINDOW, "it").unwrap_err();
            assert!(
                matches!(
                    error,
                    IntegersError::Other {
                        function: "seven",
                        ..
                    }
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn a_name_that_two_functions_have_is_refused() {
        let module = module(1, &[(0, "seven"), (1, "seven")]);
        let parsed = Parsed::new(&module).unwrap();
        assert!(matches!(parsed.function("seven"), Err(IntegersError::Function("seven"))));
        assert!(matches!(parsed.taking("other", 0), Err(IntegersError::Function("other"))));
    }

    #[test]
    fn what_is_spliced_wrapped_and_added_stands_in_the_module() {
        let module = module(1, NAMES);
        let parsed = Parsed::new(&module).unwrap();
        let mut changes = Changes::new(&parsed);
        let offsets = find(&parsed, "seven", WINDOW, "it").unwrap();
        changes.splice(0, offsets[0]..offsets[1], vec![0x41, 5]);
        let mut added = Function::new([]);
        added.instructions().i32_const(3).end();
        assert_eq!(changes.add(&[], true, added).unwrap(), 2);
        let mut inner = 0;
        changes
            .wrap(0, |index| {
                inner = index;
                let mut function = Function::new([]);
                function.instructions().call(index).call(2).i32_add().end();
                function
            })
            .unwrap();
        assert_eq!(inner, 3);
        let finished = changes.finish().unwrap();
        wasmparser::validate(&finished).unwrap();
        let again = Parsed::new(&finished).unwrap();
        // The wrapper has the name, and calls the original and the added function.
        assert!(find(&again, "seven", WINDOW, "it").is_err());
        let body = again.code(again.function("seven").unwrap()).unwrap().0.range();
        assert_eq!(again.bytes(body), Some(&[0, 0x10, 3, 0x10, 2, 0x6a, 0x0b][..]));
        assert!(finished.windows(4).any(|bytes| bytes == [0x41, 5, 0x10, 1]));
    }
}
