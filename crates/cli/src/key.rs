//! `belljar key`: the file of keys for `belljar serve --keys`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use belljar_server::keyfile::{self, KeysError};
use belljar_server::{AuditUsage, Key, KeyLimits, KeyUsage};
use chrono::{DateTime, NaiveDate, NaiveTime, SecondsFormat, Utc};
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand, ValueHint};
use serde_json::json;

use super::exit::{Exit, Usage};
use super::printer::Printer;
use super::serve::with_cause;

/// A command; `belljar key NAME` is short for `belljar key create NAME`.
#[derive(Debug)]
pub(super) struct KeyArgs(KeyCommand);

impl Args for KeyArgs {
    fn augment_args(command: Command) -> Command {
        CreateArgs::augment_args(KeyCommand::augment_subcommands(command))
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KeyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        if matches.subcommand_name().is_some() {
            return KeyCommand::from_arg_matches(matches).map(Self);
        }
        CreateArgs::from_arg_matches(matches).map(|args| Self(KeyCommand::Create(args)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Create an account and its first key
    ///
    /// Prints the key, and adds its hash and limits to the file. Without a limit here, only the
    /// server's limits apply. `belljar key NAME` is short for `belljar key create NAME`.
    Create(CreateArgs),
    /// List the keys in a file
    List(ListArgs),
    /// Remove a key, or all keys of an account
    ///
    /// A running server ends what was opened with the key within a second: streams, sockets, runs.
    Revoke(RevokeArgs),
    /// Replace the key of an account
    ///
    /// Prints a new key with the account's limits. Older keys stay valid for some time, so that
    /// clients can change over.
    Rotate(RotateArgs),
    /// Sum up what each key used, from the audit logs of servers
    ///
    /// `belljar serve --audit-log FILE` writes them. Runs, seconds and fuel count from the start of
    /// the files, or from --since. Stored bytes are those of the account's files at the key's
    /// latest run, if a limit makes the server count them.
    Usage(UsageArgs),
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Account: its sessions, files and usage belong to this name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    file: KeysFile,
    /// Runs per minute
    #[arg(long, value_name = "N")]
    runs_per_minute: Option<NonZero<u32>>,
    /// Concurrent runs
    #[arg(long, value_name = "N")]
    concurrent_runs: Option<u32>,
    /// Sessions
    #[arg(long, value_name = "N")]
    sessions: Option<u32>,
    /// Fuel of all runs per day
    #[arg(long, value_name = "N")]
    fuel_per_day: Option<u64>,
    /// Bytes of stored files of runs
    #[arg(long, value_name = "BYTES")]
    stored_bytes: Option<u64>,
    /// Allow reading the metrics of all accounts at /metrics
    #[arg(long)]
    operator: bool,
    /// Days for which the key is valid [default: until it is revoked]
    #[arg(long, value_name = "DAYS")]
    expires_in: Option<NonZero<u16>>,
}

#[derive(Debug, Args)]
pub(super) struct KeysFile {
    /// The file of keys; `create` creates it if missing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    keys: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    file: KeysFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// The account
    #[arg(value_name = "NAME")]
    name: String,
    /// Remove only the key with this id, which `belljar key list` shows
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    file: KeysFile,
}

#[derive(Debug, Args)]
pub(super) struct RotateArgs {
    /// The account
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    file: KeysFile,
    /// Hours for which older keys stay valid; 0 removes them at once
    #[arg(long, value_name = "HOURS", default_value = "24")]
    overlap: u16,
}

#[derive(Debug, Args)]
pub(super) struct UsageArgs {
    /// An audit log; repeatable, for rotated files and several servers
    #[arg(long = "audit-log", value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    logs: Vec<PathBuf>,
    /// Only what began since then: 2030-01-31, or 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<SystemTime>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses a day, in UTC, or a time.
fn moment(text: &str) -> Result<SystemTime, String> {
    let time = match text.parse::<NaiveDate>() {
        Ok(day) => day.and_time(NaiveTime::MIN).and_utc(),
        Err(_) => match DateTime::parse_from_rfc3339(text) {
            Ok(time) => time.to_utc(),
            Err(_) => return Err("expected 2030-01-31 or 2030-01-31T12:00:00Z".to_owned()),
        },
    };
    Ok(time.into())
}

pub(super) fn key(args: KeyArgs, printer: &Printer) -> anyhow::Result<Exit> {
    match args.0 {
        KeyCommand::Create(args) => create(&args, printer),
        KeyCommand::List(args) => list(&args, printer),
        KeyCommand::Revoke(args) => {
            let count = keyfile::revoke(&args.file.keys, &args.name, args.id.as_deref());
            let count = count.map_err(|error| usage(&error))?;
            let keys = if count == 1 { "key" } else { "keys" };
            printer.note(&format!("removed {count} {keys} of {}", args.name));
            Ok(Exit::Success)
        }
        KeyCommand::Rotate(args) => {
            let overlap = Duration::from_hours(args.overlap.into());
            let rotated = keyfile::rotate(&args.file.keys, &args.name, overlap);
            let (_, text) = rotated.map_err(|error| usage(&error))?;
            show(&text, printer)
        }
        KeyCommand::Usage(args) => usage_of_keys(&args, printer),
    }
}

fn usage_of_keys(args: &UsageArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let mut all = AuditUsage::default();
    for path in &args.logs {
        let read = File::open(path).and_then(|file| all.read(BufReader::new(file), args.since));
        read.with_context(|| format!("cannot read {}", path.display()))?;
    }
    if args.json {
        printer.json(&json!({
            "keys": all.keys().collect::<Vec<_>>(),
            "lost_records": all.lost(),
            "lost_records_of_accounts": all.lost_of_accounts().collect::<BTreeMap<_, _>>(),
            "invalid_lines": all.invalid(),
        }))?;
        return Ok(Exit::Success);
    }
    let heading =
        ["NAME", "ID", "RUNS", "REFUSED", "SECONDS", "FUEL", "SESSIONS", "STORED", "LAST"];
    let row = |key: &KeyUsage| {
        [
            key.account.clone(),
            key.key.clone().unwrap_or_else(|| "-".to_owned()),
            key.runs.to_string(),
            key.refused.to_string(),
            format!("{:.1}", key.wall_ms / 1e3),
            key.fuel.to_string(),
            key.sessions.to_string(),
            key.stored_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
            key.last.clone(),
        ]
    };
    let heading = heading.map(str::to_owned);
    let rows: Vec<_> = std::iter::once(heading).chain(all.keys().map(row)).collect();
    printer.table(&rows)?;
    if all.lost() > 0 {
        printer.note(&format!("{} records were lost: the figures are too low", all.lost()));
    }
    for (account, lost) in all.lost_of_accounts() {
        printer.note(&format!("{lost} records of {account} were lost"));
    }
    if all.invalid() > 0 {
        printer.note(&format!("{} lines are not records", all.invalid()));
    }
    Ok(Exit::Success)
}

fn create(args: &CreateArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let mut limits = KeyLimits::default();
    limits.runs_per_minute = args.runs_per_minute;
    limits.concurrent_runs = args.concurrent_runs;
    limits.sessions = args.sessions;
    limits.fuel_per_day = args.fuel_per_day;
    limits.stored_bytes = args.stored_bytes;
    let (mut key, text) =
        Key::generate(args.name.as_str(), limits).context("cannot create a key")?;
    key.is_operator = args.operator;
    let days = args.expires_in.map(|days| Duration::from_hours(24) * u32::from(days.get()));
    key.expires = days.map(|days| SystemTime::now() + days);
    keyfile::add(&args.file.keys, &key).map_err(|error| match error {
        KeysError::Account { .. } => {
            let hint = format!("get another key for it with belljar key rotate {}", args.name);
            usage(&error).hint(hint)
        }
        _ => usage(&error),
    })?;
    show(&text, printer)
}

fn show(text: &str, printer: &Printer) -> anyhow::Result<Exit> {
    printer.line(text)?;
    printer.note("The key is shown only once: the file contains only its hash.");
    Ok(Exit::Success)
}

fn list(args: &ListArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let keys = keyfile::read(&args.file.keys).map_err(|error| usage(&error))?;
    let now = SystemTime::now();
    if args.json {
        let to_json = |key: &Key| {
            json!({
                "name": key.name,
                "id": key.id(),
                "created": key.created.map(time),
                "expires": key.expires.map(time),
                "expired": key.is_expired(now),
                "operator": key.is_operator,
                "limits": key.limits,
            })
        };
        printer.json(&keys.iter().map(to_json).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    let heading = ["NAME", "ID", "CREATED", "EXPIRES", "LIMITS"].map(str::to_owned);
    let row = |key: &Key| {
        let created = key.created.map_or_else(|| "-".to_owned(), time);
        let expires = match key.expires {
            Some(_) if key.is_expired(now) => "expired".to_owned(),
            Some(expires) => time(expires),
            None => "never".to_owned(),
        };
        [key.name.clone(), key.id(), created, expires, limits(key)]
    };
    let rows: Vec<_> = std::iter::once(heading).chain(keys.iter().map(row)).collect();
    printer.table(&rows)?;
    Ok(Exit::Success)
}

fn limits(key: &Key) -> String {
    let limits = serde_json::to_value(&key.limits).unwrap_or_default();
    let limits = limits.as_object().into_iter().flatten();
    let mut all: Vec<_> = limits.map(|(name, limit)| format!("{name}={limit}")).collect();
    if key.is_operator {
        all.push("operator".to_owned());
    }
    if all.is_empty() {
        "-".to_owned()
    } else {
        all.join(" ")
    }
}

fn time(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn usage(error: &KeysError) -> Usage {
    Usage::new(with_cause(error))
}
