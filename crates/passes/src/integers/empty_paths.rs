//! Empty paths: they lead nowhere, as on Linux. WASI's C library takes them for the working
//! directory, so `shutil.rmtree("")` would empty it.

use wasm_encoder::{BlockType, Function};

use super::IntegersError;
use super::error_numbers::ERRNO;
use super::parsed::{Changes, Parsed};
use super::patterns::{aligned, at};

/// The function that every path of the interpreter goes through: `(path, prefix, relative,
/// length, may_grow) -> descriptor`, or -1.
const FIND: &str = "__wasilibc_find_relpath_alloc";

/// WASI's number of "No such file or directory".
const NOT_FOUND: i32 = 44;

pub(super) fn apply(
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    changes.wrap(parsed.taking(FIND, 5)?, |inner| {
        let mut function = Function::new([]);
        let mut code = function.instructions();
        code.local_get(0).i32_load8_u(aligned(0, 0)).i32_eqz().if_(BlockType::Empty);
        code.i32_const(0).i32_const(NOT_FOUND).i32_store(at(ERRNO));
        code.i32_const(-1).return_().end();
        for parameter in 0..5 {
            code.local_get(parameter);
        }
        code.call(inner).end();
        function
    })
}
