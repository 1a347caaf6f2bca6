//! What a server keeps when it is locked down: its files, and the ports of stores and collectors.

use std::path::Path;

use anyhow::Context;
use belljar::Runtime;
use belljar::lockdown::Lockdown;
use belljar_server::Scratch;
use url::{Host, Url};

use super::ServeArgs;
use crate::lockdown::{LockdownArgs, Locking};
use crate::printer::Printer;

/// Variables that name a collector of traces.
const COLLECTORS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
/// Ports of object stores and of services with credentials for them, unless a variable names
/// another.
const STORE_PORTS: [u16; 2] = [80, 443];

/// Begins to lock down a server; `temporary` is its directory for temporary files. A front leaves
/// sessions to its workers.
pub(super) fn locking<'a>(
    args: &'a ServeArgs,
    is_front: bool,
    runtime: &Runtime,
    temporary: Option<&Path>,
    printer: &'a Printer,
) -> anyhow::Result<Option<Locking<'a>>> {
    let Some(mut locking) = args.lockdown.begin(runtime, printer) else {
        return Ok(None);
    };
    locking = locking.note_cache(runtime);
    for file in [&args.keys, &args.tls_cert, &args.tls_key].into_iter().flatten() {
        locking = locking.keep_watched(file);
    }
    if let Some(state) = &args.state {
        private_directory(state).with_context(|| format!("cannot create {}", state.display()))?;
        if !is_front {
            locking = locking.keep(|plan| plan.write(state));
        }
    }
    if let Some(socket) = &args.unix {
        let parent = socket.parent().filter(|parent| !parent.as_os_str().is_empty());
        // The socket goes with the server.
        locking = locking.keep(|plan| plan.remove_files(parent.unwrap_or(Path::new("."))));
    }
    if let Some(directory) = temporary {
        locking = locking.keep(|plan| plan.write(directory));
        // It goes with the server, too.
        if let Some(parent) = directory.parent() {
            locking = locking.keep(|plan| plan.remove_directories(parent));
        }
    }
    if let Some(url) = &args.store {
        let directory = if url.starts_with(['/', '.']) {
            Some(url.into())
        } else {
            Url::parse(url).ok().and_then(|url| url.to_file_path().ok())
        };
        locking = match directory {
            Some(directory) => locking.keep(|plan| plan.write(directory)),
            None if url.starts_with("memory:") => locking,
            None => keep_store(locking),
        };
    }
    if cfg!(feature = "otel") {
        for url in COLLECTORS.iter().filter_map(|name| std::env::var(name).ok()) {
            locking = locking.keep(|plan| keep_url(plan, &url));
        }
    }
    Ok(Some(locking))
}

/// Begins to lock down a worker, which has its own directory for temporary files.
pub(super) fn locking_worker<'a>(
    args: &'a LockdownArgs,
    runtime: &Runtime,
    state: Option<&Path>,
    printer: &'a Printer,
) -> anyhow::Result<Option<Locking<'a>>> {
    let Some(mut locking) = args.begin(runtime, printer) else {
        return Ok(None);
    };
    // The default directory is shared with other programs.
    if let Some(directory) = std::env::var_os("TMPDIR") {
        locking = locking.keep(|plan| plan.write(directory));
    }
    if let Some(state) = state {
        private_directory(state).with_context(|| format!("cannot create {}", state.display()))?;
        locking = locking.keep(|plan| plan.write(state));
    }
    Ok(Some(locking))
}

/// Creates the directory for temporary files that stays writable when the server is locked down.
/// Returns `None` if it cannot be created: then only what needs a temporary file fails.
/// Directories that killed servers have left are removed.
pub(super) fn temporary(args: &ServeArgs) -> Option<Scratch> {
    if args.lockdown.no_lockdown {
        return None;
    }
    let directory = Scratch::new(&std::env::temp_dir(), "belljar-serve-").ok()?;
    // Fails only if the process has such a directory already.
    let _ = tempfile::env::override_temp_dir(directory.path());
    Some(directory)
}

/// What the clients of object stores connect to and read, as far as the environment tells.
fn keep_store(mut locking: Locking<'_>) -> Locking<'_> {
    locking = locking.keep(|mut plan| {
        for port in STORE_PORTS {
            plan = plan.connect(port);
        }
        plan.resolve_names()
    });
    let is_of_store = |name: &str| {
        ["AWS_", "AZURE_", "AZURITE_", "GOOGLE_"].iter().any(|prefix| name.starts_with(prefix))
    };
    for (name, value) in std::env::vars() {
        let is_file =
            ["_FILE", "_PATH", "_CREDENTIALS", "_ACCOUNT"].iter().any(|end| name.ends_with(end));
        if is_of_store(&name) && value.contains("://") {
            locking = locking.keep(|plan| keep_url(plan, &value));
        } else if is_of_store(&name) && is_file && Path::new(&value).is_file() {
            // Tokens are replaced before they expire.
            locking = locking.keep_watched(Path::new(&value));
        } else if ["SSL_CERT_FILE", "SSL_CERT_DIR"].contains(&name.as_str()) {
            locking = locking.keep(|plan| plan.read(&value));
        }
    }
    locking
}

/// Connecting to where a URL of HTTP leads, and looking up its name if it has one.
fn keep_url(mut plan: Lockdown, url: &str) -> Lockdown {
    let Ok(url) = Url::parse(url) else {
        return plan;
    };
    if let Some(port) = url.port_or_known_default() {
        plan = plan.connect(port);
    }
    match url.host() {
        Some(Host::Domain(_)) => plan.resolve_names(),
        _ => plan,
    }
}

fn private_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}
