//! Item 10: forged and damaged results. Runs after the programs of `tests/programs/forge`.

/// Whatever these programs did to their own sandbox, the next run is not affected.
#[test]
fn the_next_run_notices_nothing() {
    for name in ["broken_bytecode", "door_garbage", "cleared_builtins", "preopens_moved"] {
        crate::case::check(&format!("forge/{name}"));
        crate::support::still_serves();
    }
}
