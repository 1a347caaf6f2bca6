//! Modes of files: their permissions are those that Linux gives new files under the usual umask.
//!
//! WASI does not know permissions, and the C library reports none. Archives would keep that:
//! `zipfile` and `tarfile` would make files that cannot be opened where they are unpacked.

use wasm_encoder::{BlockType, Function, ValType};

use super::IntegersError;
use super::parsed::{Changes, Parsed};
use super::patterns::at;

/// Functions that fill in a `struct stat`, with their numbers of parameters and the parameter that
/// points to it.
const STATS: [(&str, usize, u32); 2] = [("fstat", 2, 1), ("__wasilibc_nocwd_fstatat", 4, 2)];

/// Place of the mode in it.
const MODE: u64 = 24;
const KIND: i32 = 0o17_0000;
const DIRECTORY: i32 = 0o4_0000;
const FILE: i32 = 0o10_0000;
const LINK: i32 = 0o12_0000;

pub(super) fn apply(
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    for (name, parameters, status) in STATS {
        changes.wrap(parsed.taking(name, parameters)?, |inner| {
            let (failed, kind) = (parameters as u32, parameters as u32 + 1);
            let mut function = Function::new([(2, ValType::I32)]);
            let mut code = function.instructions();
            for parameter in 0..failed {
                code.local_get(parameter);
            }
            code.call(inner).local_tee(failed).if_(BlockType::Empty);
            code.local_get(failed).return_().end();
            code.local_get(status).local_get(status).i32_load(at(MODE)).local_tee(kind);
            code.local_get(kind).i32_const(KIND).i32_and().local_set(kind);
            code.i32_const(0o755).i32_const(0o666);
            code.local_get(kind).i32_const(DIRECTORY).i32_eq().select();
            code.i32_const(0o644).local_get(kind).i32_const(FILE).i32_ne().select();
            code.i32_const(0o777).local_get(kind).i32_const(LINK).i32_ne().select();
            code.i32_or().i32_store(at(MODE));
            code.i32_const(0).end();
            function
        })?;
    }
    Ok(())
}
