//! `belljar serve`: the server, until a signal ends it; and `belljar key`, which makes a key to one.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use belljar::{
    Bounds, NodeOptions, Runtime, RuntimeBuilder, SessionBounds, SessionLimits, StoredSessions,
};
use belljar_server::{
    Address, App, Faces, Key, KeyLimits, Keys, Server, Service, Settings, StoreUrlError,
    TrustedProxy, is_path, keyfile, open_store,
};
use clap::{Args, ValueHint};
use serde::Serialize;

use super::args::Global;
use super::engine;
use super::exit::{Exit, Usage};
use super::options::seconds;
use super::printer::Printer;
use super::progress::Bars;
use super::trace::LogFormat;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Address and port; port 0 takes a free one. Others than those of this machine need --keys
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Listen on a Unix socket instead, which this user alone can connect to
    #[arg(long, value_name = "PATH", conflicts_with = "listen", value_hint = ValueHint::FilePath)]
    unix: Option<PathBuf>,
    /// Let in the holders of these keys, which `belljar key` makes; read again when it changes [default:
    /// one key, made for this server]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    keys: Option<PathBuf>,
    /// Let in whoever reaches the server, without a key
    #[arg(long, conflicts_with = "keys")]
    no_auth: bool,
    /// Keep sessions in this directory from one start of the server to the next
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    state: Option<PathBuf>,
    /// Keep the sessions of /v1 where every server finds them that has the same store: file:///DIR, memory:,
    /// and in a command that was built with the feature `stores` s3://BUCKET/FOLDER, az://CONTAINER/FOLDER
    /// and gs://BUCKET/FOLDER, with accounts from the environment
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// What the other servers call this one [default: drawn by lot]
    #[arg(long, value_name = "NAME", requires = "store")]
    node: Option<String>,
    /// For how long other servers wait for this one when it gives no sign of life, before they take over a
    /// session in which it runs something, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5", requires = "store")]
    lease: Duration,
    /// Which interfaces to serve: v1, e2b, mcp, jupyter, dify, piston, judge0, sandbox-fusion, librechat, or all
    #[arg(long, value_name = "NAMES", default_value_t = Faces::default())]
    faces: Faces,
    /// Serve everything below this path, as a proxy passes it on
    #[arg(long, value_name = "PATH", value_parser = base_path)]
    base_path: Option<String>,
    /// Speak TLS, with this certificate and those that vouch for it, in PEM; read again when it changes.
    /// For a command that was built with the feature `tls`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key", conflicts_with = "unix")]
    tls_cert: Option<PathBuf>,
    /// The key to the certificate, in PEM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Believe what this proxy says in X-Forwarded-Prefix and X-Forwarded-For: an address, a network such
    /// as 10.0.0.0/8, or unix for whoever uses the Unix socket; may be given several times
    #[arg(long = "trust-proxy", value_name = "PROXY")]
    trusted_proxies: Vec<TrustedProxy>,
    /// Answer to this name too, where nobody needs a key; *.NAME is every name below it; may be given
    /// several times
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Let web pages of this origin use the server and read its answers, such as <https://example.org>; may
    /// be given several times
    #[arg(long = "origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// A domain whose names {port}-{sandbox}.DOMAIN lead to this server, told to E2B's clients
    #[arg(long, value_name = "DOMAIN")]
    sandbox_domain: Option<String>,
    /// Time that runs have to end when the server does, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    grace: Duration,
    /// Memory that the server may hold, in MiB. While it holds more, it refuses new runs, sessions and uploads
    /// with 503 and suspends idle sessions to the disk [default: no bound]
    #[arg(long, value_name = "MIB")]
    memory_budget: Option<NonZero<u32>>,
    /// What of the files of sandboxes is kept in memory, in MiB; the rest is in a nameless file in the
    /// directory for temporary files
    #[arg(long, value_name = "MIB", default_value = "256")]
    file_memory: u32,
    /// Log every request on stderr in this format; -v and BELLJAR_LOG say how much else
    #[arg(long, value_name = "FORMAT")]
    pub(super) log_format: Option<LogFormat>,
    /// Once the server is ready, print its address and key as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    most: Most,
}

// The most that a client may ask for. As a doc comment it would be the help text of the command.
#[derive(Debug, Args)]
#[command(next_help_heading = "The most that a client gets")]
struct Most {
    /// Wall clock time of a run, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "600")]
    max_timeout: Duration,
    /// Memory of a run or a session above the image, in MiB
    #[arg(long, value_name = "MIB", default_value = "1024")]
    max_memory: u32,
    /// What is kept of each output stream of a run, in MiB
    #[arg(long, value_name = "MIB", default_value = "16")]
    max_output: u32,
    /// What the files of a run or a session may take, in MiB
    #[arg(long, value_name = "MIB", default_value = "1024")]
    max_workspace: u32,
    /// Runs at once, of all clients together [default: four for each processor]
    #[arg(long, value_name = "N")]
    max_runs: Option<NonZero<u16>>,
    /// Runs that may wait for one of these to end
    #[arg(long, value_name = "N", default_value = "1024")]
    max_waiting: u16,
    /// Sessions, of all clients together
    #[arg(long, value_name = "N", default_value = "10000")]
    max_sessions: NonZero<u32>,
    /// Time after which nothing runs in a session, wherever it was made, in seconds; a fork and a session that
    /// is restored are as old as what they were made from [default: no bound]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    max_session_lifetime: Option<Duration>,
    /// Time since its last run after which nothing runs in a session, in seconds [default: no bound]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    max_session_idle: Option<Duration>,
    /// Fuel of all runs of a session [default: no bound]
    #[arg(long, value_name = "N")]
    max_session_fuel: Option<u64>,
}

/// What a client needs.
#[derive(Debug, Serialize)]
struct Ready {
    url: String,
    /// The key, where one was made for this server.
    key: Option<String>,
    pid: u32,
}

pub(super) fn serve(
    args: &ServeArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let (keys, key) = keys(args)?;
    // A session that is awake takes three. That it cannot be raised is told once they are used up.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let bars = Arc::new(Bars::new(printer));
    let builder = args.most.engine(global, &bars);
    let runtime = builder.file_memory(u64::from(args.file_memory) << 20).build()?;
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
        let mut service = Service::builder(runtime.clone());
        if let Some(sessions) = stored(args, runtime)? {
            service = service.stored(sessions);
        }
        if let Some(mib) = args.memory_budget {
            let budget = service.memory_budget(u64::from(mib.get()) << 20);
            service = budget.map_err(|error| Usage::new(format!("--memory-budget: {error}")))?;
        }
        let app = App::new(service.build(), keys, settings);
        let mut server = Server::bind(app, address.clone())
            .await
            .with_context(|| format!("cannot listen on {address}"))?
            .grace(args.grace);
        if let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) {
            server = with_tls(server, cert, key)?;
        }
        if let Some(dir) = &args.state {
            server = server.state(dir);
        }
        if let Some(file) = &args.keys {
            server = server.keys(file);
        }
        let ready = Ready {
            url: server.url(),
            key,
            pid: std::process::id(),
        };
        ready.print(args, printer)?;
        server.run(signals.arrived()).await.context("the sessions were not kept")?;
        Ok(Exit::Success)
    });
    reactor.shutdown_background();
    ended
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
        let ceilings = Bounds::CEILINGS
            .timeout(self.max_timeout)
            .memory(u64::from(self.max_memory) << 20)
            .output(u64::from(self.max_output) << 20)
            .workspace(u64::from(self.max_workspace) << 20);
        let defaults = Bounds::default();
        let defaults = defaults
            .timeout(defaults.timeout.min(ceilings.timeout))
            .memory(defaults.memory.min(ceilings.memory))
            .output(defaults.output.min(ceilings.output))
            .workspace(defaults.workspace.min(ceilings.workspace));
        let sessions = SessionBounds::default()
            .max(self.max_sessions.get() as usize)
            .limits(self.of_sessions());
        let mut engine = engine::configure(global, bars)
            .ceilings(ceilings)
            .defaults(defaults)
            .queue(self.max_waiting.into())
            .sessions(sessions)
            .background(true);
        if let Some(runs) = self.max_runs {
            engine = engine.concurrency(runs.get().into());
        }
        engine
    }
}

#[cfg(feature = "tls")]
fn with_tls(server: Server, cert: &Path, key: &Path) -> Result<Server, Usage> {
    let tls =
        belljar_server::Tls::read(cert, key).map_err(|error| Usage::new(with_cause(&error)))?;
    Ok(server.tls(tls))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: Server, _: &Path, _: &Path) -> Result<Server, Usage> {
    let hint = "build it with --features tls, or have a proxy in front speak TLS";
    Err(Usage::new("this command was built without TLS").hint(hint))
}

/// The sessions that this server shares with others.
fn stored(args: &ServeArgs, runtime: Runtime) -> anyhow::Result<Option<StoredSessions>> {
    let Some(url) = &args.store else {
        return Ok(None);
    };
    let store = open_store(url).map_err(|error| {
        let usage = Usage::new(with_cause(&error));
        match error {
            StoreUrlError::NotBuilt { .. } => usage.hint("build it with --features stores"),
            _ => usage,
        }
    })?;
    let mut options = NodeOptions::default().lease(args.lease);
    if let Some(name) = &args.node {
        options = options.name(name);
    }
    let sessions = StoredSessions::new(runtime, store, options)?;
    tracing::info!(node = sessions.name(), "sessions are shared");
    Ok(Some(sessions))
}

/// Who may use the server, and the key that was made for it.
fn keys(args: &ServeArgs) -> anyhow::Result<(Keys, Option<String>)> {
    if let Some(file) = &args.keys {
        let keys = keyfile::read(file).map_err(|error| Usage::new(with_cause(&error)))?;
        return Ok((Keys::of(keys), None));
    }
    if args.unix.is_none() && !args.listen.ip().is_loopback() {
        let message = format!("others may reach {}, and --keys names no keys", args.listen);
        let hint = "make one with belljar key NAME --keys FILE, or listen on 127.0.0.1";
        return Err(Usage::new(message).hint(hint).into());
    }
    if args.no_auth || args.unix.is_some() {
        return Ok((Keys::none(), None));
    }
    let (key, text) = Key::generate("local", KeyLimits::default()).context("cannot make a key")?;
    Ok((Keys::of(vec![key]), Some(text)))
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn base_path(text: &str) -> Result<String, String> {
    let path = text.trim_end_matches('/');
    if !is_path(path) {
        return Err("it begins with /, and is made of letters, digits, /, -, _, . and ~".to_owned());
    }
    Ok(path.to_owned())
}

impl Ready {
    fn print(&self, args: &ServeArgs, printer: &Printer) -> anyhow::Result<()> {
        if args.json {
            printer.line(&serde_json::to_string(self)?)?;
            return Ok(());
        }
        let Self { url, key, .. } = self;
        printer.line(&format!("belljar serves at {url}"))?;
        let header = match key {
            Some(key) => {
                printer.line(&format!("key: {key}"))?;
                format!(" -H 'Authorization: Bearer {key}'")
            }
            None => String::new(),
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

/// The signals that end the server.
struct Signals {
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn watch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?,
        })
    }

    /// Waits for the first.
    async fn arrived(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct KeyArgs {
    /// Whose it is: what they have belongs to that name
    #[arg(value_name = "NAME")]
    name: String,
    /// The file that it is added to, hashed; it is made if missing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    keys: PathBuf,
    /// Runs a minute
    #[arg(long, value_name = "N")]
    runs_per_minute: Option<NonZero<u32>>,
    /// Runs at once
    #[arg(long, value_name = "N")]
    concurrent_runs: Option<u32>,
    /// Sessions
    #[arg(long, value_name = "N")]
    sessions: Option<u32>,
    /// Fuel of all runs of a day
    #[arg(long, value_name = "N")]
    fuel_per_day: Option<u64>,
    /// Bytes of files of runs that are kept
    #[arg(long, value_name = "BYTES")]
    stored_bytes: Option<u64>,
    /// Let its holder read the figures of all accounts at /metrics
    #[arg(long)]
    operator: bool,
}

/// Makes a key, and prints it: nothing else has it.
pub(super) fn key(args: KeyArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let mut limits = KeyLimits::default();
    limits.runs_per_minute = args.runs_per_minute;
    limits.concurrent_runs = args.concurrent_runs;
    limits.sessions = args.sessions;
    limits.fuel_per_day = args.fuel_per_day;
    limits.stored_bytes = args.stored_bytes;
    let (mut key, text) = Key::generate(args.name, limits).context("cannot make a key")?;
    key.is_operator = args.operator;
    add(&args.keys, &key)?;
    printer.line(&text)?;
    printer.note("It is shown this once: the file has its hash alone.");
    Ok(Exit::Success)
}

fn add(file: &Path, key: &Key) -> Result<(), Usage> {
    keyfile::add(file, key).map_err(|error| Usage::new(with_cause(&error)))
}
