//! wasmtime's configuration.

use std::sync::Arc;

use belljar_memory::Strategy;
use wasmtime::{Config, Engine};

use super::PINS;
use crate::memory::{self, Creator};

/// Stack reserved for host functions, which run on the guest's stack.
const HOST_STACK: usize = 1 << 20;

/// Creates an engine whose memories use `strategy`. The compiled code does not depend on it.
pub(super) fn engine(strategy: Strategy) -> wasmtime::Result<Engine> {
    let mut config = shared(cfg!(windows));
    if strategy.maps() {
        config.with_host_memory(Arc::new(Creator));
        if let Some(stacks) = memory::stack_creator() {
            config.with_host_stack(stacks);
        }
    }
    Engine::new(&config)
}

/// Returns the settings of all engines, for code of any machine; `is_windows` says whether it is
/// Windows.
pub(super) fn shared(is_windows: bool) -> Config {
    let stack = PINS.abi.stack_bytes;
    let mut config = Config::new();
    config
        .wasm_exceptions(true)
        .max_wasm_stack(stack)
        .async_stack_size(stack + HOST_STACK)
        // The module counts its own work, and marks its rarely taken branches.
        .wasm_branch_hinting(true)
        // A trap is reported by its kind only.
        .wasm_backtrace_max_frames(None)
        // Windows reads unwind information for every frame, even without unwinding.
        .native_unwind_info(is_windows)
        .generate_address_map(false)
        // The code starts with an empty memory; `memory` maps images.
        .memory_init_cow(false)
        .memory_may_move(false)
        // The heap of exception objects is small, so accesses are checked instead of guarded.
        .gc_heap_reservation(0)
        .gc_heap_guard_size(0)
        .gc_heap_reservation_for_growth(0)
        .gc_heap_may_move(true);
    config
}
