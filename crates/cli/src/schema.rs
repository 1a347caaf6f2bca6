//! `belljar schema` and `belljar completions`.

use belljar::Outcome;
use belljar::request::RunRequest;
use clap::CommandFactory;

use super::args::{CompletionsArgs, SchemaArgs, SchemaChoice};
use super::cli::Cli;
use super::exit::Exit;
use super::printer::Printer;
use super::receipt::Receipt;

/// Prints a JSON Schema, indented for people and files.
pub(super) fn schema(args: &SchemaArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let schema = match args.of {
        SchemaChoice::Request => RunRequest::schema(),
        SchemaChoice::Outcome => Outcome::schema(),
        SchemaChoice::Receipt => Receipt::schema(),
    };
    printer.line(&serde_json::to_string_pretty(&schema)?)?;
    Ok(Exit::Success)
}

/// Prints a completion script.
pub(super) fn completions(args: &CompletionsArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "belljar", &mut script);
    printer.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
