//! Contract 10: what a program cannot make the host believe, and cannot break: after the programs of
//! `tests/programs/forge`, what comes next.

/// Whatever these programs did to their own sandbox, the next run is as good as any.
#[test]
fn the_next_run_notices_nothing() {
    for name in ["broken_bytecode", "door_garbage", "cleared_builtins", "preopens_moved"] {
        crate::case::check(&format!("forge/{name}"));
        crate::support::still_serves();
    }
}
