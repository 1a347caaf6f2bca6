//! `belljar run`.

#[cfg(feature = "server")]
mod elsewhere;
mod live;
mod options;
mod session;
mod summary;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use belljar::event::OutputWatcher as _;
use belljar::request::ImageChoice;
use belljar::{Outcome, Request, Runtime};

use super::args::Global;
use super::engine;
use super::exit::{Exit, Usage, chain};
use super::input::ask_person;
use super::interrupt::Interrupt;
use super::options::directory;
use super::printer::Printer;
use super::receipt::{self, Draft, PrivateKey};
#[cfg(feature = "server")]
use super::remote;
#[cfg(feature = "server")]
pub(super) use elsewhere::Shown;
use live::EventSink;
pub(super) use live::Live;
pub(super) use options::RunArgs;
use summary::Files;
pub(super) use summary::{cuts, failure};

/// Runs one program.
pub(super) fn run(args: RunArgs, global: &Global, printer: &Arc<Printer>) -> anyhow::Result<Exit> {
    let (json, out, session) = (args.json, args.out.clone(), args.session.clone());
    let (receipt, key) = (args.receipt.clone(), args.sign.clone());
    let lockdown = args.lockdown.clone();
    #[cfg(feature = "server")]
    let link = args.link(global)?;
    let (can_ask, events) = (args.can_ask()?, args.event_sink()?);
    let mut request = args.into_request()?;
    if let Some(out) = &out {
        prepare(out)?;
    }
    let only_events = events.as_ref().is_some_and(EventSink::is_stdout);
    let live = Arc::new(Live::with(Arc::clone(printer), !json && !only_events, events));
    #[cfg(feature = "server")]
    if let Some(link) = link {
        return elsewhere::run(elsewhere::Task {
            link,
            request,
            session: session.as_deref().map(remote::session_name).transpose()?,
            live,
            can_ask,
            json,
            out: out.as_deref(),
            printer,
        });
    }
    let key = key.map(|path| receipt::private_key(&path)).transpose()?;
    let runtime = engine::start(global, printer)?;
    engine::prepare(&runtime, &request, session.as_deref())?;
    let receipt = match receipt {
        Some(path) => Some((draft(&mut request, &runtime)?, path)),
        None => None,
    };
    if let Some(locking) = lockdown.begin(&runtime, printer) {
        let mut locking = locking.keep_inputs(&request);
        if let Some(out) = &out {
            locking = locking.keep_directory(out);
        }
        for file in session.iter().chain(receipt.as_ref().map(|(_, path)| path)) {
            locking = locking.keep_replaced(file);
        }
        locking.lock()?;
    }
    let task = Task {
        runtime,
        request: if json && !live.wants_events() {
            request
        } else {
            request.watch(live.clone())
        },
        live,
        can_ask,
        json,
        receipt: receipt.map(|(draft, path)| Wanted { draft, key, path }),
        out: out.as_deref(),
        printer,
    };
    match session {
        Some(path) => session::run(task, &path),
        None => alone(task),
    }
}

/// A run to do.
struct Task<'a> {
    runtime: Runtime,
    request: Request,
    /// Shows output while it runs.
    live: Arc<Live>,
    /// Whether standard input may answer `input()`.
    can_ask: bool,
    json: bool,
    receipt: Option<Wanted>,
    out: Option<&'a Path>,
    printer: &'a Arc<Printer>,
}

/// A receipt to write.
struct Wanted {
    draft: Draft,
    key: Option<PrivateKey>,
    path: PathBuf,
}

impl Wanted {
    fn write(self, outcome: &Outcome) -> anyhow::Result<()> {
        let mut receipt = self.draft.receipt(outcome)?;
        if let Some(key) = &self.key {
            receipt.sign(key)?;
        }
        receipt::write(&receipt, &self.path)
    }
}

/// Prepares the request for a receipt.
fn draft(request: &mut Request, runtime: &Runtime) -> anyhow::Result<Draft> {
    receipt::complete(request)?;
    let image = engine::reactor()?.block_on(runtime.image_of(request))?;
    request.image = ImageChoice::Named(image.name.clone());
    Draft::of(request, image)
}

/// Runs in a sandbox that is then discarded.
fn alone(task: Task<'_>) -> anyhow::Result<Exit> {
    let Task {
        runtime,
        request,
        live,
        can_ask,
        json,
        receipt,
        out,
        printer,
    } = task;
    let ran = watch(&live, async || {
        let request = if can_ask {
            ask_person(request, printer)
        } else {
            request
        };
        Ok(runtime.run(request).await?)
    })?;
    let run = match ran {
        ControlFlow::Continue(run) => run,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    let copied = out.map(|dir| run.copy_to(dir)).transpose();
    let files = Files::of(out, &copied).unwrap_or(Files::ThrownAway);
    report(printer, &run.outcome, json, files)?;
    let receipt = receipt.map(|wanted| wanted.write(&run.outcome)).transpose();
    let success = run.outcome.success;
    drop(run);
    runtime.end();
    receipt.context("the run is done, but there is no receipt")?;
    copied.context("the run is done, but its files could not all be copied")?;
    Ok(if success { Exit::Success } else { Exit::Found })
}

/// Prints the outcome as JSON, or what was not shown during the run.
fn report(
    printer: &Printer,
    outcome: &Outcome,
    json: bool,
    files: Files<'_>,
) -> anyhow::Result<()> {
    if json {
        printer.json(outcome)?;
    } else {
        summary::print(printer, outcome, files);
    }
    Ok(())
}

/// Checks before the run that its files can be written.
fn prepare(out: &Path) -> Result<(), Usage> {
    directory(out)?;
    fs::create_dir_all(out).map_err(|e| {
        let error = anyhow::Error::new(e).context(format!("cannot create {}", out.display()));
        Usage::new(chain(&error))
    })
}

/// Works on this thread until it is done or cancelled. When this returns, a cancelled run and its
/// workspace are gone.
fn watch<T>(
    live: &Live,
    work: impl AsyncFnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<ControlFlow<Exit, T>> {
    let reactor = engine::reactor()?;
    let interrupt = Interrupt::watch();
    let ended = reactor.block_on(async {
        tokio::select! {
            biased;
            exit = interrupt.arrived() => Ok(ControlFlow::Break(exit)),
            error = live.failed() => Err(error),
            done = work() => match live.take() {
                Some(error) => Err(error),
                None => Ok(ControlFlow::Continue(done?)),
            },
        }
    });
    // Do not wait for an image that another thread is baking.
    reactor.shutdown_background();
    ended
}
