//! The processes of `belljar serve --isolate accounts`: the front, which clients connect to; the
//! spawner, which starts workers; and a worker for each account.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use belljar::Runtime;
use belljar::cluster::{NodeOptions, StoredSessions};
use belljar_server::front::{Spawner, WorkerChannel, WorkerOptions, is_kept, spawn_workers};
use belljar_server::{Faces, Keys, Server, Service, ServiceBuilder, Settings};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Most, ServeArgs, budgeted, open, reach};
use crate::args::Global;
use crate::engine;
use crate::exit::Exit;
use crate::lockdown::LockdownArgs;
use crate::options::seconds;
use crate::printer::Printer;
use crate::progress::Bars;

// A doc comment would become the help text of the command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Isolation")]
pub(super) struct IsolationArgs {
    /// Give each account a process of its own, locked down, which is started when it asks: accounts
    /// or none. The limits for clients then hold for each account [default: accounts if --keys has
    /// several and there is neither --store nor --state, whose layout differs; else none]
    #[arg(long, value_enum, value_name = "WHAT", hide_possible_values = true)]
    isolate: Option<Isolate>,
    /// Kill the process of an account that has more memory than this, in MiB [default: half of the
    /// machine's]
    #[arg(long, value_name = "MIB")]
    account_memory: Option<NonZero<u32>>,
    /// Stop the process of an account after this many seconds without requests, if nothing is lost
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    account_idle: Duration,
    /// Processes of accounts at once
    #[arg(long, value_name = "N", default_value = "256")]
    max_workers: NonZero<u16>,
    /// Role of a process that the server has started
    #[arg(long, value_enum, hide = true)]
    pub(super) role: Option<Role>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Isolate {
    Accounts,
    None,
}

/// A process that the server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    Spawner,
    Worker,
}

/// The part of the command line that a worker gets: without the URL of the store and the keys.
#[derive(Serialize, Deserialize)]
struct Told {
    global: Global,
    most: Most,
    faces: String,
    sandbox_domain: Option<String>,
    grace: Duration,
    memory_budget: Option<NonZero<u32>>,
    file_memory: u32,
    node: Option<String>,
    lease: Duration,
    lockdown: LockdownArgs,
}

/// The path of this program, also if the file was replaced since it was started.
fn this_program() -> anyhow::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe().context("cannot find this program")
}

impl IsolationArgs {
    /// Starts the spawner if accounts are isolated. Call this before the lock-down.
    ///
    /// `has_sessions` says that there is a store or a state directory. Then accounts are isolated
    /// on request only, because sessions written without isolation would not be found.
    pub(super) fn spawner(
        &self,
        keys: &Keys,
        has_sessions: bool,
    ) -> anyhow::Result<Option<Spawner>> {
        let is_wanted = match self.isolate {
            Some(isolate) => isolate == Isolate::Accounts,
            None => keys.accounts() > 1 && !has_sessions,
        };
        if !is_wanted {
            return Ok(None);
        }
        Server::close_on_exec().context("cannot list open files")?;
        let mut command = Command::new(this_program()?);
        command.args(["serve", "--role", "spawner"]);
        if let Some(mib) = self.account_memory {
            command.args(["--account-memory", &mib.to_string()]);
        }
        command.env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)));
        let spawner = Spawner::start(command).context("cannot start a process for workers")?;
        Ok(Some(spawner))
    }

    /// Runs the spawner.
    pub(super) fn spawn(&self) -> anyhow::Result<Exit> {
        let reactor = engine::reactor()?;
        let _entered = reactor.enter();
        let _signals = ignore_signals()?;
        let program = this_program()?;
        let worker = || {
            let mut command = Command::new(&program);
            command.args(["--quiet", "serve", "--role", "worker"]);
            command
        };
        let memory = self.account_memory.map(|mib| u64::from(mib.get()) << 20);
        spawn_workers(worker, memory).context("standard input is not the server's")?;
        Ok(Exit::Success)
    }
}

/// Ignores the signals that stop the server, which service managers send to all its processes. The
/// front stops the others.
fn ignore_signals() -> anyhow::Result<[Signal; 2]> {
    let ignore = |kind| signal(kind).context("cannot watch for signals");
    Ok([ignore(SignalKind::terminate())?, ignore(SignalKind::interrupt())?])
}

/// Completes the cache in another process, so that the front runs no guest.
pub(super) fn set_up(global: &Global) -> anyhow::Result<()> {
    let mut command = Command::new(this_program()?);
    if let Some(cache) = &global.cache {
        command.arg("--cache").arg(cache);
    }
    if let Some(wheel) = &global.wheel {
        command.arg("--wheel").arg(wheel);
    }
    if global.quiet {
        command.arg("--quiet");
    }
    let status = command.arg("setup").stdin(Stdio::null()).stdout(Stdio::null()).status();
    if status.context("cannot start belljar setup")?.success() {
        return Ok(());
    }
    anyhow::bail!("the cache cannot be completed: belljar setup failed")
}

/// How workers are started.
pub(super) fn options(
    args: &ServeArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<WorkerOptions> {
    let told = Told {
        global: global.clone(),
        most: args.most.clone(),
        faces: args.faces.to_string(),
        sandbox_domain: args.sandbox_domain.clone(),
        grace: args.grace,
        memory_budget: args.memory_budget,
        file_memory: args.file_memory,
        node: args.node.clone(),
        lease: args.lease,
        lockdown: args.lockdown.clone(),
    };
    let mut options = WorkerOptions::default();
    options.settings = serde_json::to_value(told)?;
    options.state.clone_from(&args.state);
    if let Some(url) = &args.store {
        options.store = Some(open(url)?);
    }
    options.idle = args.isolation.account_idle;
    options.max = args.isolation.max_workers.get().into();
    options.grace = args.grace;
    let printer = Arc::clone(printer);
    options.log = Arc::new(move |account, line| {
        printer.note(&format!("account {account:?}: {line}"));
    });
    Ok(options)
}

/// Runs a worker.
pub(super) fn work(printer: &Arc<Printer>) -> anyhow::Result<Exit> {
    let mut channel = WorkerChannel::begin().context("a worker is started by the server")?;
    let told: Told = channel.settings()?;
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let bars = Arc::new(Bars::new(printer));
    let builder = told.most.engine(&told.global, &bars);
    let runtime = builder.file_memory(u64::from(told.file_memory) << 20).build()?;
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let ended = reactor.block_on(async {
        let _signals = ignore_signals()?;
        let mut service = Service::builder(runtime.clone());
        if let Some(sessions) = stored(&told, &mut channel, &runtime, &service)? {
            service = service.stored(sessions);
        }
        service = budgeted(service, told.memory_budget)?;
        let mut settings = Settings::default();
        settings.faces = told.faces.parse::<Faces>()?;
        settings.sandbox_domain.clone_from(&told.sandbox_domain);
        let state = channel.state().map(PathBuf::from);
        let locking = reach::locking_worker(&told.lockdown, &runtime, state.as_deref(), printer)?;
        let held = locking.map(crate::lockdown::Locking::lock).transpose()?;
        let (mut server, shutdown) = Server::of_worker(channel, service, settings)?;
        server = server.grace(told.grace);
        if let Some(state) = state {
            server = server.state(state);
        }
        if let Some(held) = held {
            server = server.lockdown(held.to_string());
        }
        tokio::select! {
            ended = server.run(shutdown.stopped()) => ended.context("the sessions could not be saved")?,
            () = shutdown.gone() => {}
        }
        Ok(Exit::Success)
    });
    reactor.shutdown_background();
    ended
}

/// The account's sessions in the store.
fn stored(
    told: &Told,
    channel: &mut WorkerChannel,
    runtime: &Runtime,
    service: &ServiceBuilder,
) -> anyhow::Result<Option<StoredSessions>> {
    let Some(store) = channel.store()? else {
        return Ok(None);
    };
    let mut options = NodeOptions::default().lease(told.lease);
    if let Some(name) = &told.node {
        options = options.name(name);
    }
    let store = service.timed(store);
    Ok(Some(StoredSessions::new(runtime.clone(), store, options)?))
}
