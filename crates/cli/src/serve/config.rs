//! Options of `belljar serve` from a file and from variables. The command line comes first, then
//! variables, then the file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use toml::{Table, Value};

use super::ServeArgs;
use crate::args::Global;
use crate::exit::Usage;

const PREFIX: &str = "BELLJAR_SERVE_";
/// Options about the configuration, and about the terminal.
const NOT_IN_FILES: [&str; 7] =
    ["check", "config", "print-config", "quiet", "verbose", "json", "role"];

/// The options of `belljar serve`, each of which a variable can set.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) args: ServeArgs,
    /// The options and their values, as a configuration file.
    pub(super) effective: String,
}

impl Args for Configured {
    fn augment_args(command: Command) -> Command {
        ServeArgs::augment_args(command).mut_args(|arg| match arg.get_long() {
            Some(long) => {
                let variable = variable(long);
                // A variable may say 0, false or no.
                let arg = match arg.get_action() {
                    ArgAction::SetTrue => arg.value_parser(FalseyValueParser::new()),
                    _ => arg,
                };
                arg.env(variable).hide_env(true)
            }
            None => arg,
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Configured {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self {
            args: ServeArgs::from_arg_matches(matches)?,
            effective: effective(matches),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The arguments of a command, completed by the file that `--config` names, if they are of
/// `belljar serve`.
pub(crate) fn complete(
    command: impl FnOnce() -> Command,
    mut args: Vec<OsString>,
) -> Result<Vec<OsString>, Usage> {
    // Other commands start without a second parse.
    if !args.iter().any(|arg| arg == "serve") {
        return Ok(args);
    }
    // Mistakes are reported when the completed arguments are parsed.
    let Ok(matches) = command().ignore_errors(true).try_get_matches_from(&args) else {
        return Ok(args);
    };
    let Some(("serve", given)) = matches.subcommand() else {
        return Ok(args);
    };
    let Ok(Some(file)) = given.try_get_one::<PathBuf>("config") else {
        return Ok(args);
    };
    let place = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Usage::new(format!("cannot read {place}: {error}")))?;
    let table: Table = toml::from_str(&text)
        .map_err(|error| Usage::new(format!("{place} is not valid TOML: {error}")))?;
    let options = options();
    for (key, value) in &table {
        let arg = options.iter().find(|arg| name(arg) == *key);
        let Some(arg) = arg else {
            let hint = "belljar serve --print-config lists all options";
            return Err(Usage::new(format!("{place}: there is no option {key:?}")).hint(hint));
        };
        let source = given.value_source(arg.get_id().as_str());
        if matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            continue;
        }
        let added = arguments(arg, value, file);
        args.extend(added.map_err(|kind| Usage::new(format!("{place}: {key} must be {kind}")))?);
    }
    Ok(args)
}

/// The arguments that set an option to a value in a file; or what the value must be.
fn arguments(arg: &Arg, value: &Value, file: &Path) -> Result<Vec<OsString>, &'static str> {
    let long = arg.get_long().unwrap_or_default();
    let one = |value: &Value| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            _ => return Err("a string or a number"),
        };
        let mut argument = OsString::from(format!("--{long}="));
        // Paths are relative to the file; `-` is a stream.
        let is_path =
            matches!(arg.get_value_hint(), clap::ValueHint::FilePath | clap::ValueHint::DirPath);
        match file.parent().filter(|_| is_path && text != "-") {
            Some(parent) => argument.push(parent.join(text)),
            None => argument.push(text),
        }
        Ok(argument)
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => Ok(vec![format!("--{long}").into()]),
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("true or false"),
        (ArgAction::Append, Value::Array(values)) => values.iter().map(one).collect(),
        (ArgAction::Append, _) => Err("a list"),
        _ => Ok(vec![one(value)?]),
    }
}

/// The options that a file can set.
fn options() -> Vec<Arg> {
    let command = Global::augment_args(ServeArgs::augment_args(Command::new("serve")));
    let is_option = |arg: &&Arg| arg.get_long().is_some_and(|long| !NOT_IN_FILES.contains(&long));
    command.get_arguments().filter(is_option).cloned().collect()
}

/// The name of an option in files.
fn name(arg: &Arg) -> String {
    arg.get_long().unwrap_or_default().replace('-', "_")
}

fn variable(long: &str) -> String {
    format!("{PREFIX}{}", long.replace('-', "_").to_uppercase())
}

fn effective(matches: &ArgMatches) -> String {
    let mut lines = Vec::new();
    for arg in options() {
        let id = arg.get_id().as_str();
        let raw = matches.try_get_raw(id).ok().flatten();
        let mut values = raw.into_iter().flatten().map(|value| typed(&value.to_string_lossy()));
        let value = match arg.get_action() {
            ArgAction::SetTrue => Some(Value::Boolean(matches.get_flag(id))),
            ArgAction::Append => {
                let values: Vec<_> = values.collect();
                (!values.is_empty()).then_some(Value::Array(values))
            }
            _ => values.next(),
        };
        let name = name(&arg);
        lines.push(match value {
            Some(value) => format!("{name} = {value}\n"),
            None => format!("# {name} =\n"),
        });
    }
    lines.concat()
}

fn typed(text: &str) -> Value {
    match (text.parse(), text.parse::<f64>()) {
        (Ok(number), _) => Value::Integer(number),
        (_, Ok(number)) if number.is_finite() => Value::Float(number),
        _ => Value::String(text.to_owned()),
    }
}
