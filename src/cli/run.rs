//! `belljar run`.

mod live;
mod options;
mod summary;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use belljar::{Request, Run, Runtime};

use super::args::Global;
use super::engine;
use super::exit::{Exit, Usage, chain};
use super::interrupt::Interrupt;
use super::printer::Printer;
use live::Live;
pub(super) use options::RunArgs;

/// Runs one program.
pub(super) fn run(args: RunArgs, global: &Global, printer: &Arc<Printer>) -> anyhow::Result<Exit> {
    let (json, out) = (args.json, args.out.clone());
    let request = args.into_request()?;
    if let Some(out) = &out {
        prepare(out)?;
    }
    let runtime = engine::start(global, printer)?;
    let run = match watch(&runtime, request, json, printer)? {
        ControlFlow::Continue(run) => run,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    let copied = out.as_deref().map(|dir| run.copy_to(dir)).transpose();
    if json {
        printer.json(&run.outcome)?;
    } else {
        summary::print(printer, &run.outcome, out.as_deref().filter(|_| copied.is_ok()));
    }
    let success = run.outcome.success;
    drop(run);
    // Directories that were kept for a next run go with it.
    drop(runtime);
    copied.context("the run is done, but its files could not all be copied")?;
    Ok(if success { Exit::Success } else { Exit::Found })
}

/// Makes sure before the run that its files have a place to go.
fn prepare(out: &Path) -> Result<(), Usage> {
    fs::create_dir_all(out).map_err(|e| {
        let error = anyhow::Error::new(e).context(format!("cannot create {}", out.display()));
        Usage::new(chain(&error))
    })
}

/// Runs the request on this thread until it ends, or breaks it off when nobody wants it any more:
/// then the run and its workspace are gone when this returns.
fn watch(
    runtime: &Runtime,
    request: Request,
    json: bool,
    printer: &Arc<Printer>,
) -> anyhow::Result<ControlFlow<Exit, Run>> {
    let reactor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot wait for events")?;
    let interrupt = Interrupt::watch();
    let live = Arc::new(Live::new(printer.clone()));
    let ended = reactor.block_on(async {
        let run = async {
            if json {
                runtime.run(request).await
            } else {
                runtime.run_watched(request, live.clone()).await
            }
        };
        tokio::select! {
            biased;
            exit = interrupt.arrived() => Ok(ControlFlow::Break(exit)),
            error = live.failed() => Err(error.into()),
            run = run => match live.take() {
                Some(error) => Err(error.into()),
                None => Ok(ControlFlow::Continue(run?)),
            },
        }
    });
    // An image that is being baked on another thread is not waited for.
    reactor.shutdown_background();
    ended
}
