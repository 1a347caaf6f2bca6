//! `belljar check`.

use std::sync::Arc;

use belljar::outcome::CheckReport;
use serde_json::json;

use super::args::{CheckArgs, Global};
use super::exit::Exit;
use super::policy::policy;
use super::printer::Printer;
use super::text::plain;
use super::{engine, source};

/// Reports violations of a policy in a program, and imports that are not available.
pub(super) fn check(
    args: CheckArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let policy = policy(Some(args.policy), &args.allow_import)?;
    let code = source::code(args.source)?;
    let report = engine::start(global, printer)?.blocking().check(&code, &policy)?;
    let clean = report.is_clean();
    if args.json {
        printer.json(&json!({
            "clean": clean,
            "violations": report.violations,
            "missing_imports": report.missing_imports,
        }))?;
    } else {
        print(&report, printer)?;
    }
    Ok(if clean { Exit::Success } else { Exit::Found })
}

fn print(report: &CheckReport, printer: &Printer) -> anyhow::Result<()> {
    for violation in &report.violations {
        let line = violation.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        printer.line(&format!("{line}{}", plain(&violation.message)))?;
    }
    for module in &report.missing_imports {
        printer.line(&format!("Missing module: {}", plain(module)))?;
    }
    if report.is_clean() {
        printer.note("nothing found");
    }
    Ok(())
}
