//! belljar in a Node process: the native half of the package `belljar`. Requests, outcomes, events and
//! values cross as JSON; `index.js` gives them their shape.
#![warn(
    clippy::exit,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]
#![cfg_attr(
    test,
    allow(
        dead_code,
        reason = "what Node calls is registered with it outside of tests only"
    )
)]

mod callbacks;
mod failure;
mod files;
mod promise;
mod runtime;
mod session;
