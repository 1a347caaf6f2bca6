//! Tests of the kernel with the real engine, and of its parsers with damaged bytes.

mod hostile;
mod kernel;
mod parsers;
mod peer;
