//! Links extensions, compiled to WebAssembly, to the main module.
//!
//! An extension is an instance of its own that shares memory, table, stack pointer and fuel with
//! the main module and has no other state: an image stores no more for it than its place. The
//! input is a statically linked module with its relocations (`wasm-ld --emit-relocs`). It is moved
//! to its place in memory and table; functions that it imports are those of the main module, by
//! name; data of the main module is resolved by addresses that the caller gives.

mod casts;
mod extension;
mod main_module;
mod relocate;
mod write;

use std::collections::BTreeMap;

use wasm_encoder::reencode;
use wasmparser::BinaryReaderError;

use crate::PassError;

pub use extension::{Extension, Needs};
pub use main_module::Targets;
pub(crate) use main_module::open;

/// Increased with every change of the linker's output, or of the main module's exports.
pub(crate) const VERSION: u32 = 3;

/// Name under which an extension imports what the main module exports.
pub const MAIN: &str = "main";
/// Export name of the main module's memory.
pub const MEMORY: &str = "memory";
/// Export name of its stack pointer.
pub const STACK_POINTER: &str = "belljar.stack_pointer";
/// Export name of its table.
pub const TABLE: &str = "belljar.table";
/// Prefix of the export names of functions and tags that only extensions use.
pub const LINKED: &str = "link:";

/// Names of the tags of the C and the C++ library.
const LONGJMP: &str = "__c_longjmp";
const CPP_EXCEPTION: &str = "__cpp_exception";

/// An extension cannot be linked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The file is not a WebAssembly module.
    #[error("it cannot be parsed")]
    Parse(#[from] BinaryReaderError),
    /// The module is not as an extension must be.
    #[error("it {0}")]
    Unsupported(&'static str),
    /// The module imports something that extensions may not import.
    #[error("it imports {module}.{name}, which is not part of the interpreter")]
    Import {
        /// Module of the import.
        module: String,
        /// Name of the import.
        name: String,
    },
    /// The interpreter does not have an imported function.
    #[error("the interpreter has no function {name}")]
    Function {
        /// Name of the function.
        name: String,
    },
    /// An imported function has another type.
    #[error("it expects {name} to be of the type {expected}, and the interpreter's is {actual}")]
    Type {
        /// Name of the function.
        name: String,
        /// Type of the import.
        expected: String,
        /// Type of the interpreter's function.
        actual: String,
    },
    /// The interpreter does not have imported data.
    #[error("the interpreter's data {name} is not available to extensions")]
    Data {
        /// Name of the symbol.
        name: String,
    },
    /// The module does not define the function that creates the Python module.
    #[error("it does not export PyInit_{name}")]
    Init {
        /// Name of the Python module.
        name: String,
    },
    /// The module is larger than an extension may be.
    #[error("its {what} is {actual}, and may be at most {most}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        actual: u64,
        /// Its maximum.
        most: u64,
    },
    /// The module has a kind of relocation that extensions do not need.
    #[error("it has a relocation of the unsupported type {0}")]
    Relocation(String),
    /// The linked module cannot be metered.
    #[error(transparent)]
    Pass(#[from] PassError),
}

impl From<reencode::Error> for LinkError {
    fn from(error: reencode::Error) -> Self {
        match error {
            reencode::Error::ParseError(error) => error.into(),
            _ => Self::Unsupported("has unknown parts"),
        }
    }
}

/// Where an extension is placed.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Address of its memory.
    pub memory: u32,
    /// Its first table slot.
    pub slot: u32,
}

/// A linked extension.
#[derive(Debug)]
pub struct Linked {
    /// The module, not metered yet.
    pub module: Vec<u8>,
    /// Initial contents of its memory, by address.
    pub data: Vec<(u32, Vec<u8>)>,
    /// Table slots of its `PyInit` functions, by the module's name.
    pub inits: BTreeMap<String, u32>,
    /// Whether it exports [`CONSTRUCTORS`].
    pub has_constructors: bool,
}

/// Export name of the function that must be called once before any other.
pub const CONSTRUCTORS: &str = "__wasm_call_ctors";

const fn unsupported(why: &'static str) -> PassError {
    PassError::Unsupported { pass: "link", why }
}

fn refused(error: reencode::Error) -> PassError {
    PassError::of(error, "link")
}
