//! Tracing on stderr, for those who ask for it.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// Starts tracing when `-v` or `BELLJAR_LOG` ask for it; costs nothing otherwise.
pub(super) fn start(verbose: u8) {
    let asked = std::env::var("BELLJAR_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = match (asked, verbose) {
        (Some(filter), _) => filter,
        (None, 0) => return,
        (None, 1) => "belljar=debug".to_owned(),
        (None, _) => "belljar=trace,wasmtime=debug".to_owned(),
    };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
}
