//! The command `belljar`: arguments in, library calls, text or JSON out.

#![deny(unsafe_code)]
#![warn(
    clippy::exit,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

mod args;
mod batch;
#[cfg(feature = "compile")]
mod bundle;
mod check;
mod cli;
mod doctor;
mod engine;
mod exit;
mod image;
mod input;
mod interrupt;
#[cfg(feature = "kernel")]
mod kernel;
#[cfg(all(unix, feature = "server"))]
mod key;
#[cfg(feature = "lambda")]
mod lambda;
mod licenses;
mod lockdown;
#[cfg(feature = "server")]
mod mcp;
mod options;
#[cfg(all(unix, feature = "compile"))]
mod package;
mod policy;
mod printer;
mod progress;
mod receipt;
#[cfg(feature = "server")]
mod remote;
mod repl;
mod replay;
mod run;
mod schema;
#[cfg(all(unix, feature = "server"))]
mod serve;
#[cfg(feature = "server")]
mod server_error;
mod session_file;
mod setup;
mod source;
mod terminal;
mod text;
mod trace;

use std::sync::Arc;

#[cfg(all(unix, feature = "server"))]
use clap::CommandFactory;
use clap::Parser;

use cli::{Cli, Command};
use exit::Exit;
use printer::Printer;

#[cfg(feature = "allocator")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Runs the command and exits without dropping: output is flushed and workspaces are removed, and
/// the system frees the rest faster.
fn main() -> ! {
    let args = std::env::args_os().collect();
    #[cfg(all(unix, feature = "server"))]
    let args = match serve::complete(Cli::command, args) {
        Ok(args) => args,
        Err(error) => {
            let code = exit::report(&Printer::new(false), &error.into()).code();
            std::process::exit(code)
        }
    };
    let cli = Cli::parse_from::<Vec<_>, _>(args);
    let printer = Arc::new(Printer::new(cli.global.quiet));
    let exit = match trace::start(cli.global.verbose, cli.command.log_format()) {
        Ok(trace) => {
            let exit = dispatch(cli, &printer);
            trace.end();
            exit
        }
        Err(error) => Err(error),
    };
    let exit = exit.unwrap_or_else(|error| exit::report(&printer, &error));
    std::process::exit(exit.code())
}

fn dispatch(cli: Cli, printer: &Arc<Printer>) -> anyhow::Result<Exit> {
    let global = &cli.global;
    match cli.command {
        Command::Run(args) => run::run(*args, global, printer),
        Command::Repl(args) => repl::repl(*args, global, printer),
        Command::Replay(args) => replay::replay(&args, global, printer),
        Command::Batch(args) => batch::batch(&args, global, printer),
        #[cfg(feature = "kernel")]
        Command::Kernel(args) => kernel::kernel(&args, global, printer),
        #[cfg(feature = "lambda")]
        Command::Lambda(args) => lambda::lambda(&args, global, printer),
        Command::Check(args) => check::check(args, global, printer),
        Command::Setup(args) => setup::setup(&args, global, printer),
        #[cfg(all(unix, feature = "server"))]
        Command::Serve(args) => serve::serve(&args, global, printer),
        #[cfg(feature = "server")]
        Command::Mcp(args) => mcp::mcp(&args, global, printer),
        #[cfg(all(unix, feature = "server"))]
        Command::Key(args) => key::key(*args, printer),
        Command::Image(command) => image::image(&command, global, printer),
        #[cfg(feature = "compile")]
        Command::Bundle(args) => bundle::bundle(&args, global, printer),
        #[cfg(all(unix, feature = "compile"))]
        Command::Package(command) => package::package(&command, global, printer),
        Command::Doctor(args) => doctor::doctor(&args, global, printer),
        Command::Licenses(args) => licenses::licenses(&args, global, printer),
        Command::Completions(args) => schema::completions(&args, printer),
        Command::Schema(args) => schema::schema(&args, printer),
    }
}
