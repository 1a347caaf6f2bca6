//! Gives wasmtime the memories and stacks of `belljar_memory`.

mod creator;
mod stacks;

pub(crate) use creator::Creator;
pub(crate) use stacks::stack_creator;
