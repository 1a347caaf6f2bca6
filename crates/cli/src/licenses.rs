//! `belljar licenses`.

use std::sync::Arc;

use belljar::setup::License;
use serde_json::{Value, json};

use super::args::{Global, LicensesArgs};
use super::engine::configure;
use super::exit::{Exit, Usage};
use super::printer::{Printer, Tone};
use super::progress::Bars;
use super::text::{shorten, table};

/// Longer titles are cut.
const MAX_TITLE: usize = 60;

/// Shows the software in the sandbox with its licenses.
pub(super) fn licenses(
    args: &LicensesArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let mut all = configure(global, &Arc::new(Bars::new(printer))).licenses()?;
    if let Some(name) = &args.package {
        all.retain(|license| license.package.eq_ignore_ascii_case(name));
        if all.is_empty() {
            return Err(Usage::new(format!("the sandbox contains no package {name}"))
                .hint("`belljar licenses` lists them")
                .into());
        }
    }
    let full = args.full || args.package.is_some();
    if args.json {
        printer.json(&all.iter().map(|license| to_json(license, full)).collect::<Vec<_>>())?;
    } else if full {
        for license in &all {
            let title = printer.paint(Tone::Strong, &title(license));
            printer.line(&format!("{title}\n\n{}\n", license.text.trim_end()))?;
        }
    } else {
        let row = |l: &License| {
            [l.package.clone(), l.version.clone().unwrap_or_default(), first_line(&l.text)]
        };
        for line in table(&all.iter().map(row).collect::<Vec<_>>()) {
            printer.line(&line)?;
        }
        printer.note("full texts: belljar licenses --full, or belljar licenses PACKAGE");
    }
    Ok(Exit::Success)
}

fn title(license: &License) -> String {
    match &license.version {
        Some(version) => format!("{} {version}", license.package),
        None => license.package.clone(),
    }
}

/// The first line of the license itself, after headings with the file's name.
fn first_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with("====")).unwrap_or_default();
    shorten(line, MAX_TITLE)
}

fn to_json(license: &License, full: bool) -> Value {
    let mut value = json!({"package": license.package, "version": license.version});
    if full {
        value["text"] = json!(license.text);
    }
    value
}
