//! `belljar mcp`: tools for a model, over standard input and output.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use belljar::lockdown::Lockdown;
use belljar_code_mode::{ConnectError, Reach, Servers};
use belljar_server::Service;
use belljar_server::mcp::{self, Functions, Options};
use clap::{Args, ValueHint};

use super::args::Global;
use super::engine;
use super::exit::{Exit, Usage};
use super::interrupt::Interrupt;
use super::lockdown::LockdownArgs;
use super::options::{self, Bounds, Given};
use super::printer::Printer;
use super::progress::Bars;

#[derive(Debug, Args)]
pub(super) struct McpArgs {
    /// Image that runs start from [default: auto, for sessions data]
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Connect to the MCP servers in this file, and offer their tools to the code as functions; the
    /// file has the JSON format of MCP clients: {"mcpServers": {...}}
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    with: Option<PathBuf>,
    /// Let the code call only these tools, given as SERVER, SERVER.TOOL or SERVER.PREFIX*;
    /// repeatable
    #[arg(long, value_name = "TOOL", requires = "with")]
    allow: Vec<String>,
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    lockdown: LockdownArgs,
}

pub(super) fn mcp(args: &McpArgs, global: &Global, printer: &Arc<Printer>) -> anyhow::Result<Exit> {
    let mut start = args.given.request()?;
    start.image = options::image(args.image.as_deref());
    start.limits = args.bounds.limits();
    let interrupt = Interrupt::watch();
    let bars = Arc::new(Bars::new(printer));
    let runtime = engine::configure(global, &bars).background(true).build()?;
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let ended = reactor.block_on(async {
        let mut locking = args.lockdown.begin(&runtime, printer);
        locking = locking.map(|locking| locking.note_cache(&runtime).keep_inputs(&start));
        let mut options = Options::default().start(start);
        let mut connected = None;
        if let Some(file) = &args.with {
            let connecting = Servers::connect(file, &args.allow);
            let servers = tokio::select! {
                servers = connecting => servers.map_err(usage)?,
                exit = interrupt.arrived() => return Ok(exit),
            };
            let reach = servers.reach();
            locking = locking.map(|locking| locking.keep(|plan| reached(plan, &reach)));
            printer.note(&format!("code can call {} tools of other servers", servers.count()));
            options = options.functions(Functions {
                tools: servers.tools().collect(),
                listing: servers.listing(),
            });
            connected = Some(servers);
        }
        if let Some(locking) = locking {
            locking.lock()?;
        }
        let stop = async {
            interrupt.arrived().await;
        };
        let served = Box::pin(mcp::serve(Service::new(runtime), options, stop)).await;
        if let Some(servers) = connected {
            servers.close().await;
        }
        served.context("cannot serve")?;
        Ok(Exit::Success)
    });
    reactor.shutdown_background();
    ended
}

/// Keeps the rights that connections to other servers need.
fn reached(mut plan: Lockdown, reach: &Reach) -> Lockdown {
    if reach.has_processes {
        plan = plan.end_children();
    }
    for port in &reach.ports {
        plan = plan.connect(*port);
    }
    if reach.has_names {
        plan = plan.resolve_names();
    }
    plan
}

fn usage(error: ConnectError) -> anyhow::Error {
    let hint = error.hint();
    let error = anyhow::Error::new(error);
    let usage = Usage::new(super::exit::chain(&error));
    match hint {
        Some(hint) => usage.hint(hint).into(),
        None => usage.into(),
    }
}
