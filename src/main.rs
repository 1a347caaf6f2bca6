//! The command `belljar`.

#![deny(unsafe_code)]

mod cli;

fn main() -> ! {
    cli::main()
}
