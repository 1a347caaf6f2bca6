//! `belljar replay`: does again what a receipt says was done, and compares.

use std::path::PathBuf;
use std::sync::Arc;

use belljar::{HostPaths, Outcome, Request, Runtime};
use clap::{Args, ValueHint};
use serde::Serialize;

use super::args::Global;
use super::engine;
use super::exit::{Exit, Usage};
use super::interrupt::Interrupt;
use super::printer::Printer;
use super::receipt::{OutcomeEntry, Receipt, Signed, public_key};

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// The receipt
    #[arg(value_name = "RECEIPT", value_hint = ValueHint::FilePath)]
    receipt: PathBuf,
    /// Take no receipt but one that is signed with this public key, in PEM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key: Option<PathBuf>,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// What a replay found.
#[derive(Debug, Serialize)]
struct Found<'a> {
    same: bool,
    /// The public key of who signed it.
    signed_by: Option<&'a str>,
    /// SHA-256 of the outcome that the receipt tells of, and of the one here.
    expected: &'a str,
    found: &'a str,
    /// The keys of the outcome that differ.
    differing: Vec<&'a str>,
    /// The outcome here.
    outcome: &'a Outcome,
}

/// Runs it again.
pub(super) fn replay(
    args: &ReplayArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let receipt = Receipt::read(&args.receipt)?;
    let signed = receipt.signed()?;
    if let Some(path) = &args.key {
        let wanted = public_key(path)?;
        match &signed {
            Signed::By(key) if *key == wanted => {}
            Signed::By(key) => {
                let text = format!("the receipt is signed with another key, {key}");
                let hint = "ask whoever sent it whose key that is";
                return Err(Usage::new(text).hint(hint).into());
            }
            Signed::Not => return Err(Usage::new("the receipt is not signed").into()),
        }
    }
    // Its author may not have files of this machine read.
    let asked = receipt.request.clone().into_request(HostPaths::Refused);
    let request = asked.map_err(belljar::Error::from)?;
    if request.deterministic.is_none() {
        return Err(Usage::new("the receipt is for a run that cannot be repeated").into());
    }
    let runtime = engine::start(global, printer)?;
    let reactor = engine::reactor()?;
    let interrupt = Interrupt::watch();
    let ran = reactor.block_on(async {
        let work = async {
            check_image(&receipt, &runtime, &request).await?;
            anyhow::Ok(runtime.run(request.clone()).await?.outcome.clone())
        };
        tokio::select! {
            biased;
            exit = interrupt.arrived() => Err(exit),
            outcome = work => Ok(outcome),
        }
    });
    // An image that is being baked on another thread is not waited for.
    reactor.shutdown_background();
    let outcome = match ran {
        Ok(outcome) => outcome?,
        Err(exit) => return Ok(exit),
    };
    let here = OutcomeEntry::of(&outcome)?;
    let found = Found {
        same: here == receipt.outcome,
        signed_by: match &signed {
            Signed::By(key) => Some(key.as_str()),
            Signed::Not => None,
        },
        expected: &receipt.outcome.sha256,
        found: &here.sha256,
        differing: here.differing(&receipt.outcome),
        outcome: &outcome,
    };
    if args.json {
        printer.json(&found)?;
    } else {
        print(&found, printer)?;
    }
    Ok(if found.same {
        Exit::Success
    } else {
        Exit::Found
    })
}

/// Whether the image here is the one that the run started from.
async fn check_image(
    receipt: &Receipt,
    runtime: &Runtime,
    request: &Request,
) -> anyhow::Result<()> {
    let here = runtime.image_of(request).await?;
    let (name, wrote) = (&receipt.image.name, &receipt.belljar);
    let hint = format!("replay it with belljar {wrote}, which wrote it");
    if here.artifact != receipt.image.artifact {
        let text = "the receipt is for another build of Python than the one that is here";
        return Err(Usage::new(text).hint(hint).into());
    }
    if here.name != *name {
        let text = format!(
            "the receipt is for the image {name}, and here the run starts from {}",
            here.name
        );
        return Err(Usage::new(text).hint(hint).into());
    }
    if here.memory != receipt.image.memory {
        let text = format!("the receipt is for another {name} image than the one that is here");
        let own = format!("{hint}, or build that image again");
        return Err(Usage::new(text).hint(own).into());
    }
    Ok(())
}

fn print(found: &Found<'_>, printer: &Printer) -> anyhow::Result<()> {
    if found.same {
        printer.line(&format!("same: {}", found.found))?;
    } else {
        printer
            .line(&format!("differs: {} here, {} in the receipt", found.found, found.expected))?;
        let outcome = serde_json::to_value(found.outcome)?;
        for key in &found.differing {
            let here = outcome.get(*key).map_or_else(|| "nothing".to_owned(), cut);
            // A receipt has whatever keys its author likes.
            printer.line(&format!("  {}: here {here}", key.escape_debug()))?;
        }
        if found.differing.is_empty() {
            printer.line("  only the hash of the whole differs from those of its parts")?;
        }
    }
    match found.signed_by {
        Some(key) => printer.note(&format!("signed with {key}")),
        None => printer.note("not signed: whoever has the receipt may have written it"),
    }
    Ok(())
}

/// The beginning of a value.
fn cut(value: &serde_json::Value) -> String {
    const MAX: usize = 200;
    let text = value.to_string();
    if text.chars().count() <= MAX {
        return text;
    }
    text.chars().take(MAX).chain("...".chars()).collect()
}
