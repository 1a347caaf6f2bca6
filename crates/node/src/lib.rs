//! The native half of the Node package `belljar`. Requests, outcomes, events and values are passed
//! as JSON; `index.js` converts them to objects.
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
