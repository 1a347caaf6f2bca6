//! Tests of the lease protocol under faults, on a controlled clock. Sessions are lists of numbers;
//! everything else is the production code.

mod clock;
mod dates;
mod faults;
mod list;
mod network;
mod options;
mod walk;
mod world;
