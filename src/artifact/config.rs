//! wasmtime's configuration.

use std::sync::Arc;

use wasmtime::{Config, Engine};

use super::PINS;
use crate::memory::{self, Creator, Strategy};

/// Stack left for host functions, which run on the same stack as the guest.
const HOST_STACK: usize = 1 << 20;

/// Makes an engine whose memories come by `strategy`. The compiled code is the same for all.
pub(super) fn engine(strategy: Strategy) -> wasmtime::Result<Engine> {
    let mut config = shared(cfg!(windows));
    if strategy.maps() {
        config.with_host_memory(Arc::new(Creator));
        if let Some(stacks) = memory::stacks() {
            config.with_host_stack(stacks);
        }
    }
    Engine::new(&config)
}

/// What holds for every engine, on whichever machine its code runs, `is_windows` or not.
pub(super) fn shared(is_windows: bool) -> Config {
    let stack = PINS.abi.stack_bytes;
    let mut config = Config::new();
    config
        .wasm_exceptions(true)
        .max_wasm_stack(stack)
        .async_stack_size(stack + HOST_STACK)
        // The module counts its own work, and says which of its branches are hardly ever taken.
        .wasm_branch_hinting(true)
        // A trap is reported by its kind; nobody reads addresses in the interpreter.
        .wasm_backtrace_max_frames(None)
        // Windows looks at every frame of a stack, even where nothing unwinds it.
        .native_unwind_info(is_windows)
        .generate_address_map(false)
        // The code starts with an empty memory; images are mapped by `memory`.
        .memory_init_cow(false)
        .memory_may_move(false)
        // The heap of exception objects: small, so checked rather than guarded.
        .gc_heap_reservation(0)
        .gc_heap_guard_size(0)
        .gc_heap_reservation_for_growth(0)
        .gc_heap_may_move(true);
    config
}
