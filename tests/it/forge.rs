//! Contract 10: what a program cannot make the host believe, and cannot break.

use crate::case::cases;

cases! { "forge":
    audit_hook
    broken_bytecode
    captured_streams
    cleared_builtins
    cleared_globals
    cleared_modules
    closed_descriptors
    closed_then_failed
    collector
    destructor_exits
    door_and_exit
    door_garbage
    door_plots
    door_request
    door_status
    endless_repr
    every_descriptor
    exception_cycle
    exception_lies
    exception_name
    exit_code_lies
    exit_hook
    exit_hook_hard
    exit_hook_raises
    frames_and_collector_hunt
    frames_lie
    low_recursion
    monitoring
    moved_descriptors
    preopens_closed
    preopens_moved
    printed_payload
    raised_signals
    replaced_builtins
    replaced_json
    replaced_streams
    same_names
    signal_to_itself
    trace_hooks
}

/// Whatever these programs did to their own sandbox, the next run is as good as any.
#[test]
fn the_next_run_notices_nothing() {
    for name in ["broken_bytecode", "door_garbage", "cleared_builtins", "preopens_moved"] {
        crate::case::check(&format!("forge/{name}"));
        crate::support::still_serves();
    }
}
