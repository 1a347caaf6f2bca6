//! `belljar replay`: repeats the run of a receipt, and compares the outcomes.

use std::path::PathBuf;
use std::sync::Arc;

use belljar::request::HostPaths;
use belljar::{Outcome, Request, Runtime};
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
    /// Require a signature with this public key, in PEM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key: Option<PathBuf>,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

/// The result of a replay.
#[derive(Debug, Serialize)]
struct Found<'a> {
    same: bool,
    /// The public key of the signature.
    signed_by: Option<&'a str>,
    /// SHA-256 of the outcome in the receipt, and of the one here.
    expected: &'a str,
    found: &'a str,
    /// The keys of the outcome that differ.
    differing: Vec<&'a str>,
    /// The outcome here.
    outcome: &'a Outcome,
}

/// Repeats the run.
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
                let hint = "ask the sender whose key it is";
                return Err(Usage::new(text).hint(hint).into());
            }
            Signed::Not => return Err(Usage::new("the receipt is not signed").into()),
        }
    }
    // The author of the receipt must not be able to read files of this machine.
    let asked = receipt.request.clone().into_request(HostPaths::Refused);
    let request = asked.map_err(belljar::Error::from)?;
    if request.deterministic.is_none() {
        return Err(Usage::new("the run of the receipt is not deterministic").into());
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
    // Do not wait for an image that another thread is baking.
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

/// Checks that this machine has the image of the receipt.
async fn check_image(
    receipt: &Receipt,
    runtime: &Runtime,
    request: &Request,
) -> anyhow::Result<()> {
    let here = runtime.image_of(request).await?;
    let (name, wrote) = (&receipt.image.name, &receipt.belljar);
    let hint = format!("replay it with belljar {wrote}, which wrote it");
    if here.artifact != receipt.image.artifact {
        let text = "the receipt is for another build of Python";
        return Err(Usage::new(text).hint(hint).into());
    }
    if here.name != *name {
        let text = format!(
            "the receipt is for the image {name}, but here the run starts from {}",
            here.name
        );
        return Err(Usage::new(text).hint(hint).into());
    }
    if here.memory != receipt.image.memory {
        let text = format!("the receipt is for another {name} image");
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
            // The author of a receipt can choose its keys.
            printer.line(&format!("  {}: here {here}", key.escape_debug()))?;
        }
        if found.differing.is_empty() {
            printer.line("  only the overall hash differs")?;
        }
    }
    match found.signed_by {
        Some(key) => printer.note(&format!("signed with {key}")),
        None => printer.note("not signed: anyone may have written this receipt"),
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
