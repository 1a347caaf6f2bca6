//! `belljar serve`: the server, until a signal ends it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use belljar_server::{App, Key, KeyLimits, Keys, Server, Service, Settings};
use clap::Args;
use serde::Serialize;

use super::args::Global;
use super::engine;
use super::exit::{Exit, Usage};
use super::printer::Printer;
use super::progress::Bars;

/// Time that runs have to end when the server does.
const GRACE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Let in whoever reaches the server, without a key
    #[arg(long)]
    no_auth: bool,
    /// A domain whose names {port}-{sandbox}.DOMAIN lead to this server, told to E2B's clients
    #[arg(long, value_name = "DOMAIN")]
    sandbox_domain: Option<String>,
    /// Once the server is ready, print its address and key as one line of JSON
    #[arg(long)]
    json: bool,
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
    let bars = Arc::new(Bars::new(printer));
    let runtime = engine::configure(global, &bars).build()?;
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let ended = reactor.block_on(async {
        let signals = Signals::watch().context("cannot watch for signals")?;
        let mut settings = Settings::default();
        settings.sandbox_domain.clone_from(&args.sandbox_domain);
        let app = App::new(Service::new(runtime), keys, settings);
        let server = Server::bind(app, args.listen)
            .await
            .with_context(|| format!("cannot listen on {}", args.listen))?;
        let ready = Ready {
            url: server.url(),
            key,
            pid: std::process::id(),
        };
        ready.print(args.json, printer)?;
        server.run(signals.arrived(), GRACE).await;
        Ok(Exit::Success)
    });
    reactor.shutdown_background();
    ended
}

/// Who may use the server, and the key that was made for it.
fn keys(args: &ServeArgs) -> anyhow::Result<(Keys, Option<String>)> {
    if args.no_auth {
        if !args.listen.ip().is_loopback() {
            let message = format!("--no-auth on {}, which others may reach", args.listen);
            return Err(Usage::new(message).hint("listen on 127.0.0.1").into());
        }
        return Ok((Keys::none(), None));
    }
    let (key, text) = Key::generate("local", KeyLimits::default()).context("cannot make a key")?;
    Ok((Keys::of(vec![key]), Some(text)))
}

impl Ready {
    fn print(&self, json: bool, printer: &Printer) -> anyhow::Result<()> {
        if json {
            printer.line(&serde_json::to_string(self)?)?;
            return Ok(());
        }
        let Self { url, .. } = self;
        printer.line(&format!("belljar serves at {url}"))?;
        let header = match &self.key {
            Some(key) => {
                printer.line(&format!("key: {key}"))?;
                format!(" -H 'Authorization: Bearer {key}'")
            }
            None => String::new(),
        };
        printer.line(&format!(
            "try: curl {url}/v1/runs{header} -H 'Content-Type: application/json' -d '{{\"code\": \"print(1)\"}}'"
        ))?;
        Ok(())
    }
}

/// The signals that end the server.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn watch() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?,
        })
    }

    /// Waits for the first.
    async fn arrived(mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
