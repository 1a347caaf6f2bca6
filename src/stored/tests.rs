//! The lease protocol under faults, on a clock that the tests set: sessions are lists of numbers, and
//! everything else is what nodes run.

mod clock;
mod dates;
mod faults;
mod list;
mod network;
mod options;
mod walk;
mod world;
