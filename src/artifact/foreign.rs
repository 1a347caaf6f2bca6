//! Modules other than Python's, for tests.

use belljar_memory::Strategy;
use belljar_passes::{check, meter};

use super::code::CodeError;
use super::split::{Split, split};
use super::{compiler, config};
use crate::util::cause::Cause;

/// Splits, meters, checks and compiles a module for this machine, without the passes that know
/// Python. Returns the native code, and the two halves of the module.
pub(crate) fn compile_foreign(wasm: &[u8]) -> Result<(Vec<u8>, Split), CodeError> {
    let split = split(wasm)?;
    let metered = meter(&split.code)?;
    check(&metered).map_err(|e| CodeError::Pass(Cause::new(e)))?;
    let engine =
        config::engine(Strategy::default()).map_err(|e| CodeError::Engine(Cause::new(e)))?;
    let native = compiler::compile(&engine, &metered);
    Ok((native.map_err(|e| CodeError::Compile(Cause::new(e)))?, split))
}
