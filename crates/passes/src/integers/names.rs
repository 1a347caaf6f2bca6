//! Names: the meaning of "int" and similar type names.
//!
//! `dtype("int")`, `"long"` and `"l"` have the same width for the user as `int`. "intp" keeps the
//! width of an address.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::offsets::DESCRIPTOR_NUMBER;
use super::parsed::{Changes, Parsed};
use super::patterns::{aligned, at};
use super::{Functions, IntegersError, LONG, UNSIGNED};

/// Names of the default integer, by their meaning as a C `long`.
const SIGNED: [&str; 4] = ["int", "int_", "long", "l"];
const UNSIGNED_NAMES: [&str; 3] = ["uint", "ulong", "L"];

const TEXT: u32 = 0;
const ALIGN: u32 = 1;
const DESCRIPTOR: u32 = 2;
const NUMBER: u32 = 3;
const LETTERS: u32 = 4;

pub(super) fn wrap(
    parsed: &Parsed<'_>,
    functions: &Functions,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let from_number = parsed.taking("PyArray_DescrFromType", 1)?;
    let letters = parsed.taking("PyUnicode_AsUTF8", 1)?;
    let release = parsed.of_type("_Py_DecRef", 1, false)?;
    let index = parsed.taking("_convert_from_str", 2)?;
    changes.wrap(index, |inner| {
        let mut function = Function::new([(3, ValType::I32)]);
        let mut code = function.instructions();
        code.block(BlockType::Empty);
        code.local_get(TEXT).local_get(ALIGN).call(inner).local_tee(DESCRIPTOR).i32_eqz().br_if(0);
        // 0 for signed, 1 for unsigned.
        code.local_get(DESCRIPTOR)
            .i32_load(at(DESCRIPTOR_NUMBER))
            .i32_const(LONG)
            .i32_sub()
            .local_tee(NUMBER)
            .i32_const(UNSIGNED)
            .i32_gt_u()
            .br_if(0);
        // numpy has just read the characters, so they exist.
        code.local_get(TEXT).call(letters).local_tee(LETTERS).i32_eqz().br_if(0);
        code.block(BlockType::Empty);
        for name in SIGNED.iter().chain(&UNSIGNED_NAMES) {
            is_name(&mut code, name);
            code.br_if(0);
        }
        code.br(1).end();
        code.local_get(DESCRIPTOR).call(release);
        code.call(functions.named_int).local_get(NUMBER).i32_add().call(from_number).return_();
        code.end();
        code.local_get(DESCRIPTOR).end();
        function
    })
}

/// Pushes 1 if the characters equal `name`, else 0. Nothing is read after the first difference.
fn is_name(code: &mut InstructionSink<'_>, name: &str) {
    code.block(BlockType::Result(ValType::I32));
    code.i32_const(0);
    for (offset, letter) in name.bytes().chain([0]).enumerate() {
        code.local_get(LETTERS)
            .i32_load8_u(aligned(offset as u64, 0))
            .i32_const(i32::from(letter))
            .i32_ne()
            .br_if(0);
    }
    code.drop().i32_const(1).end();
}
