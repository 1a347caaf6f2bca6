//! `belljar doctor`.

use belljar::doctor::{Finding, State, examine, examine_bundle};
use serde_json::{Value, json};

use super::args::{Global, JsonArgs};
use super::engine;
use super::exit::Exit;
use super::printer::{Printer, Tone};
use super::text::table;

/// Reports what is set up, and what needs setting up; changes nothing.
pub(super) fn doctor(args: &JsonArgs, global: &Global, printer: &Printer) -> anyhow::Result<Exit> {
    let findings = match engine::bundle(global) {
        Some(path) => examine_bundle(&path, global.bundle_hash.as_deref()),
        None => examine(engine::cache(global)),
    };
    let well = findings.iter().all(|finding| matches!(finding.state, State::Good));
    if args.json {
        let findings: Vec<Value> = findings.iter().map(to_json).collect();
        printer.json(&json!({"well": well, "findings": findings}))?;
    } else {
        print(&findings, printer)?;
    }
    Ok(if well { Exit::Success } else { Exit::Found })
}

fn print(findings: &[Finding], printer: &Printer) -> anyhow::Result<()> {
    let rows: Vec<[String; 2]> =
        findings.iter().map(|f| [f.what.clone(), f.detail.clone()]).collect();
    for (finding, line) in findings.iter().zip(table(&rows)) {
        let (word, tone) = describe(finding);
        printer.line(&format!("{}  {line}", printer.paint(tone, &format!("{word:<7}"))))?;
        if let Some(mend) = &finding.mend {
            printer.line(&printer.paint(Tone::Faint, &format!("         {mend}")))?;
        }
    }
    Ok(())
}

fn describe(finding: &Finding) -> (&'static str, Tone) {
    match finding.state {
        State::Good => ("good", Tone::Good),
        State::Missing => ("missing", Tone::Warning),
        _ => ("bad", Tone::Bad),
    }
}

fn to_json(finding: &Finding) -> Value {
    json!({
        "what": finding.what,
        "state": describe(finding).0,
        "detail": finding.detail,
        "mend": finding.mend,
    })
}
