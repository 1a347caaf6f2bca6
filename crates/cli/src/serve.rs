//! `belljar serve`: the server, until a signal stops it.

mod config;
mod isolate;
mod keys;
mod reach;

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use belljar::cluster::{NodeOptions, StoredSessions};
use belljar::request::RunLimits;
use belljar::session::{RegistryLimits, SessionLimits};
use belljar::store::Store;
use belljar::{Runtime, RuntimeBuilder};
use belljar_server::{
    Address, App, AuditLog, Faces, Scratch, Server, Service, ServiceBuilder, Settings,
    StoreUrlError, TrustedProxy, is_path, open_store,
};
use clap::{Args, ValueHint};
use serde::{Deserialize, Serialize};

use super::args::Global;
use super::engine;
use super::exit::{Exit, Usage};
use super::lockdown::LockdownArgs;
use super::options::seconds;
use super::printer::Printer;
use super::progress::Bars;
use super::trace::LogFormat;
pub(crate) use config::{Configured, complete};
use isolate::{IsolationArgs, Role};

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Address and port; port 0 takes a free one. Addresses reachable from other machines need
    /// --keys
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Listen on a Unix socket that only this user can connect to
    #[arg(long, value_name = "PATH", conflicts_with = "listen", value_hint = ValueHint::FilePath)]
    unix: Option<PathBuf>,
    /// Accept the keys in this file, managed with `belljar key`; reloaded when it changes [default:
    /// one generated key]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    keys: Option<PathBuf>,
    /// Accept the key in this file, for a server with one account. A missing file is created with a
    /// generated key
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "no_auth"])]
    #[arg(value_hint = ValueHint::FilePath)]
    key_file: Option<PathBuf>,
    /// Accept all requests, without a key
    #[arg(long, conflicts_with = "keys")]
    no_auth: bool,
    /// Keep sessions in this directory across restarts
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    state: Option<PathBuf>,
    /// Share the sessions of /v1 with all servers that use this store: file:///DIR, memory:, and,
    /// if built with the feature `stores`, s3://BUCKET/FOLDER, az://CONTAINER/FOLDER and
    /// gs://BUCKET/FOLDER, with credentials from the environment
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Name of this node in the store [default: random]
    #[arg(long, value_name = "NAME", requires = "store")]
    node: Option<String>,
    /// Seconds without a sign of life from this server after which other servers take over its
    /// sessions
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    lease: Duration,
    /// Interfaces to serve: v1, console, e2b, mcp, jupyter, dify, piston, judge0, sandbox-fusion,
    /// librechat, openai, or all
    #[arg(long, value_name = "NAMES", default_value_t = Faces::default())]
    faces: Faces,
    /// Serve everything below this path, as passed on by a proxy
    #[arg(long, value_name = "PATH", value_parser = base_path)]
    base_path: Option<String>,
    /// Serve TLS with this certificate chain, in PEM; reloaded when it changes. Needs the feature
    /// `tls`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key", conflicts_with = "unix")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Trust X-Forwarded-Prefix and X-Forwarded-For from this proxy: an address, a network such as
    /// 10.0.0.0/8, or unix for clients of the Unix socket; repeatable
    #[arg(long = "trust-proxy", value_name = "PROXY")]
    trusted_proxies: Vec<TrustedProxy>,
    /// Without keys, also accept this host name; *.NAME accepts all names below it; repeatable
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Let web pages of this origin use the server and read its answers, such as
    /// <https://example.org>; repeatable
    #[arg(long = "origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// Domain for E2B clients: the names {port}-{sandbox}.DOMAIN must lead to this server
    #[arg(long, value_name = "DOMAIN")]
    sandbox_domain: Option<String>,
    /// Seconds that runs have to finish when the server stops
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    grace: Duration,
    /// Memory budget of the server, in MiB. Above it, the server rejects new runs, sessions and
    /// uploads with 503 and suspends idle sessions to disk [default: unlimited]
    #[arg(long, value_name = "MIB")]
    memory_budget: Option<NonZero<u32>>,
    /// Memory for the files of sandboxes, in MiB; the rest is in an unnamed file in the directory
    /// for temporary files
    #[arg(long, value_name = "MIB", default_value = "256")]
    file_memory: u32,
    /// Append a record of each run, session and refused key to this file, as lines of JSON; -
    /// writes them on stderr
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    audit_log: Option<PathBuf>,
    /// Log every request on stderr in this format; -v and BELLJAR_LOG add more
    #[arg(long, value_name = "FORMAT")]
    pub(super) log_format: Option<LogFormat>,
    /// Read options from this file, in TOML, with the names of the options: max_runs = 8. Options
    /// on the command line come first, then variables: BELLJAR_SERVE_MAX_RUNS=8. Relative paths
    /// are relative to the file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Print all options and their values as such a file, and exit
    #[arg(long)]
    print_config: bool,
    /// Check options, keys, certificates and the store's URL, and exit
    #[arg(long)]
    check: bool,
    /// Once the server is ready, print its address and key as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    most: Most,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    lockdown: LockdownArgs,
}

// The maximum that a client may request. A doc comment would become the help text of the command.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Limits for clients")]
struct Most {
    /// Wall clock time of a run, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "600")]
    max_timeout: Duration,
    /// Memory of a run or a session above the image, in MiB
    #[arg(long, value_name = "MIB", default_value = "1024")]
    max_memory: u32,
    /// Output of a run, for each stream, in MiB
    #[arg(long, value_name = "MIB", default_value = "16")]
    max_output: u32,
    /// Files of a run or a session, in MiB
    #[arg(long, value_name = "MIB", default_value = "1024")]
    max_workspace: u32,
    /// Concurrent runs of all clients [default: four for each processor]
    #[arg(long, value_name = "N")]
    max_runs: Option<NonZero<u16>>,
    /// Queued runs
    #[arg(long, value_name = "N", default_value = "1024")]
    max_waiting: u16,
    /// Sessions of all clients
    #[arg(long, value_name = "N", default_value = "10000")]
    max_sessions: NonZero<u32>,
    /// Maximum age of a session in seconds, after which it accepts no runs; forks and restored
    /// sessions inherit the age of their origin [default: unlimited]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    max_session_lifetime: Option<Duration>,
    /// Maximum idle time of a session in seconds, after which it accepts no runs [default:
    /// unlimited]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    max_session_idle: Option<Duration>,
    /// Fuel of all runs of a session [default: unlimited]
    #[arg(long, value_name = "N")]
    max_session_fuel: Option<u64>,
    /// Round the clocks of the code down to multiples of this, in nanoseconds; 0 does not [default:
    /// 1000 with --keys, otherwise 0]
    #[arg(long, value_name = "NS")]
    clock_resolution: Option<u64>,
}

/// Step of the code's clocks if accounts share a server, in nanoseconds.
const SHARED_CLOCK: u64 = 1_000;

/// What a client needs to connect.
#[derive(Debug, Serialize)]
struct Ready {
    url: String,
    /// The generated key, if any.
    key: Option<String>,
    pid: u32,
}

pub(super) fn serve(
    configured: &Configured,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let args = &configured.args;
    match args.isolation.role {
        Some(Role::Spawner) => return args.isolation.spawn(),
        Some(Role::Worker) => return isolate::work(printer),
        None => {}
    }
    if args.print_config {
        printer.text(&configured.effective)?;
        return Ok(Exit::Success);
    }
    #[cfg(not(feature = "tls"))]
    refuse_tls(args)?;
    let (keys, key) = keys::keys(args)?;
    if args.check {
        check(args, global, printer)?;
        printer.line("the configuration is valid")?;
        return Ok(Exit::Success);
    }
    let spawner = args.isolation.spawner(&keys, args.store.is_some() || args.state.is_some())?;
    // An active session takes three descriptors. If raising the limit fails, the error appears when
    // they run out.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let bars = Arc::new(Bars::new(printer));
    let engine = || {
        let builder = args.most.engine(global, &bars);
        // A file of keys is for several accounts, which may be added later.
        let builder = if args.keys.is_none() && args.most.clock_resolution.is_none() {
            builder.clock_resolution(Duration::ZERO)
        } else {
            builder
        };
        builder.file_memory(u64::from(args.file_memory) << 20)
    };
    // Before the lock-down.
    let audit = args.audit_log.as_deref().map(audit_log).transpose()?;
    let mut runtime = engine().build()?;
    if spawner.is_some() && !runtime.is_set_up() {
        isolate::set_up(global)?;
        runtime = engine().build()?;
    }
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let ended = reactor.block_on(async {
        let signals = Signals::watch().context("cannot watch for signals")?;
        let mut settings = Settings::default();
        settings.base_path = args.base_path.clone().unwrap_or_default();
        settings.faces.clone_from(&args.faces);
        settings.hosts.clone_from(&args.hosts);
        settings.origins.clone_from(&args.origins);
        settings.trusted_proxies.clone_from(&args.trusted_proxies);
        settings.sandbox_domain.clone_from(&args.sandbox_domain);
        if let Some(domain) = &args.sandbox_domain {
            settings.hosts.extend([domain.clone(), format!("*.{domain}")]);
        }
        settings.is_unix = args.unix.is_some();
        let address = match &args.unix {
            Some(path) => Address::Unix(path.clone()),
            None => Address::Tcp(args.listen),
        };
        let is_front = spawner.is_some();
        let temporary = if is_front {
            None
        } else {
            reach::temporary(args)
        };
        let temporary = temporary.as_ref().map(Scratch::path);
        let locking = reach::locking(args, is_front, &runtime, temporary, printer)?;
        let mut service = Service::builder(runtime.clone());
        if !is_front {
            if let Some(sessions) = stored(args, runtime, &service)? {
                service = service.stored(sessions);
            }
            service = budgeted(service, args.memory_budget)?;
        }
        if let Some(audit) = audit {
            service = service.audit(audit);
        }
        let needs_key = keys.are_needed();
        let app = App::new(service.build(), keys, settings);
        let mut server = Server::bind(app, address.clone())
            .await
            .with_context(|| format!("cannot listen on {address}"))?
            .grace(args.grace);
        #[cfg(feature = "tls")]
        if let Some(tls) = tls(args)? {
            server = server.tls(tls);
        }
        if let Some(spawner) = spawner {
            let options = isolate::options(args, global, printer)?;
            server = server.isolate(spawner, options).await.context("cannot isolate accounts")?;
        } else if let Some(dir) = &args.state {
            server = server.state(dir);
        }
        if let Some(file) = &args.keys {
            server = server.keys(file);
        }
        if let Some(locking) = locking {
            server = server.lockdown(locking.lock()?.to_string());
        }
        let ready = Ready {
            url: server.url(),
            key,
            pid: std::process::id(),
        };
        ready.print(args, needs_key, printer)?;
        server.run(signals.arrived()).await.context("the sessions could not be saved")?;
        Ok(Exit::Success)
    });
    reactor.shutdown_background();
    ended
}

fn audit_log(path: &Path) -> anyhow::Result<AuditLog> {
    if path == Path::new("-") {
        return AuditLog::stderr().context("cannot start a thread");
    }
    AuditLog::open(path).with_context(|| format!("cannot open the audit log {}", path.display()))
}

/// Opens what the options name, apart from the keys.
fn check(args: &ServeArgs, global: &Global, printer: &Arc<Printer>) -> anyhow::Result<()> {
    args.most.engine(global, &Arc::new(Bars::new(printer))).build()?;
    if let Some(url) = &args.store {
        open(url)?;
    }
    if let Some(path) = args.audit_log.as_deref() {
        check_audit_log(path)?;
    }
    #[cfg(feature = "tls")]
    tls(args)?;
    Ok(())
}

/// Opens the audit log if it exists: a new file would belong to the user who checks.
fn check_audit_log(path: &Path) -> anyhow::Result<()> {
    if path == Path::new("-") || path.symlink_metadata().is_ok() {
        return audit_log(path).map(drop);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let listed = folder.read_dir().map(drop);
    listed.with_context(|| format!("cannot open the audit log's folder {}", folder.display()))
}

impl Most {
    fn of_sessions(&self) -> SessionLimits {
        let mut limits = SessionLimits::default();
        limits.lifetime = self.max_session_lifetime;
        limits.idle = self.max_session_idle;
        limits.fuel = self.max_session_fuel;
        limits
    }

    fn engine(&self, global: &Global, bars: &Arc<Bars>) -> RuntimeBuilder {
        let ceilings = RunLimits::CEILINGS
            .timeout(self.max_timeout)
            .memory(u64::from(self.max_memory) << 20)
            .output(u64::from(self.max_output) << 20)
            .workspace(u64::from(self.max_workspace) << 20);
        let defaults = RunLimits::default();
        let defaults = defaults
            .timeout(defaults.timeout.min(ceilings.timeout))
            .memory(defaults.memory.min(ceilings.memory))
            .output(defaults.output.min(ceilings.output))
            .workspace(defaults.workspace.min(ceilings.workspace));
        let sessions = RegistryLimits::default()
            .max(self.max_sessions.get() as usize)
            .limits(self.of_sessions());
        let mut engine = engine::configure(global, bars)
            .ceilings(ceilings)
            .defaults(defaults)
            .queue(self.max_waiting.into())
            .sessions(sessions)
            .clock_resolution(Duration::from_nanos(self.clock_resolution.unwrap_or(SHARED_CLOCK)))
            .background(true);
        if let Some(runs) = self.max_runs {
            engine = engine.concurrency(runs.get().into());
        }
        engine
    }
}

#[cfg(feature = "tls")]
fn tls(args: &ServeArgs) -> Result<Option<belljar_server::Tls>, Usage> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else {
        return Ok(None);
    };
    let tls = belljar_server::Tls::read(cert, key);
    tls.map(Some).map_err(|error| Usage::new(with_cause(&error)))
}

#[cfg(not(feature = "tls"))]
fn refuse_tls(args: &ServeArgs) -> Result<(), Usage> {
    if args.tls_cert.is_none() {
        return Ok(());
    }
    let hint = "build it with --features tls, or let a proxy in front handle TLS";
    Err(Usage::new("this command was built without TLS").hint(hint))
}

fn open(url: &str) -> Result<Arc<dyn Store>, Usage> {
    open_store(url).map_err(|error| {
        let usage = Usage::new(with_cause(&error));
        match error {
            StoreUrlError::NotBuilt { .. } => usage.hint("build it with --features stores"),
            _ => usage,
        }
    })
}

/// The sessions shared with other servers.
fn stored(
    args: &ServeArgs,
    runtime: Runtime,
    service: &ServiceBuilder,
) -> anyhow::Result<Option<StoredSessions>> {
    let Some(url) = &args.store else {
        return Ok(None);
    };
    let store = service.timed(open(url)?);
    let mut options = NodeOptions::default().lease(args.lease);
    if let Some(name) = &args.node {
        options = options.name(name);
    }
    let sessions = StoredSessions::new(runtime, store, options)?;
    tracing::info!(node = sessions.name(), "sessions are shared");
    Ok(Some(sessions))
}

fn budgeted(service: ServiceBuilder, mib: Option<NonZero<u32>>) -> Result<ServiceBuilder, Usage> {
    let Some(mib) = mib else {
        return Ok(service);
    };
    let budget = service.memory_budget(u64::from(mib.get()) << 20);
    budget.map_err(|error| Usage::new(format!("--memory-budget: {error}")))
}

pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn base_path(text: &str) -> Result<String, String> {
    let path = text.trim_end_matches('/');
    if !is_path(path) {
        return Err(
            "it must begin with / and contain only letters, digits, /, -, _, . and ~".to_owned()
        );
    }
    Ok(path.to_owned())
}

impl Ready {
    fn print(&self, args: &ServeArgs, needs_key: bool, printer: &Printer) -> anyhow::Result<()> {
        if args.json {
            printer.line(&serde_json::to_string(self)?)?;
            return Ok(());
        }
        let Self { url, key, .. } = self;
        printer.line(&format!("belljar serves at {url}"))?;
        if let Some(key) = key {
            printer.line(&format!("key: {key}"))?;
        }
        let header = match (key, &args.key_file) {
            (Some(key), _) => format!(" -H 'Authorization: Bearer {key}'"),
            (None, Some(file)) => {
                let file = file.to_string_lossy();
                let file = shlex::try_quote(&file).unwrap_or_default();
                format!(" -H \"Authorization: Bearer $(cat {file})\"")
            }
            (None, None) if needs_key => " -H \"Authorization: Bearer $BELLJAR_KEY\"".to_owned(),
            (None, None) => String::new(),
        };
        let target = match &args.unix {
            Some(path) => {
                let base = args.base_path.as_deref().unwrap_or_default();
                format!("--unix-socket {} http://localhost{base}", path.display())
            }
            None => url.clone(),
        };
        printer.line(&format!(
            "try: curl {target}/v1/runs{header} --json '{{\"code\": \"print(1)\"}}'"
        ))?;
        Ok(())
    }
}

/// The signals that stop the server.
struct Signals {
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn watch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?,
        })
    }

    /// Waits for the first signal.
    async fn arrived(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}
