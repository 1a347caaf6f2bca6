//! Starts the engine for a command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use belljar::request::ImageChoice;
use belljar::{Error, Request, Runtime, RuntimeBuilder};

use super::args::Global;
use super::printer::Printer;
use super::progress::Bars;

/// Starts the engine, showing the progress of any setup.
pub(super) fn start(global: &Global, printer: &Arc<Printer>) -> Result<Runtime, Error> {
    configure(global, &Arc::new(Bars::new(printer))).build()
}

/// Makes the image that a request names, unless it is made. A process that is locked down can
/// neither download its packages nor write it to a cache that has all else. A session that goes on
/// from a file has the image of its beginning.
pub(super) fn prepare(
    runtime: &Runtime,
    request: &Request,
    session: Option<&Path>,
) -> Result<(), Error> {
    match &request.image {
        ImageChoice::Named(name) if session.is_none_or(|file| !file.exists()) => {
            runtime.images().prepare(name)
        }
        _ => Ok(()),
    }
}

/// A reactor on the current thread.
pub(super) fn reactor() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot wait for events")
}

/// A builder for an engine, for commands that share `bars` with it.
pub(super) fn configure(global: &Global, bars: &Arc<Bars>) -> RuntimeBuilder {
    let mut builder = Runtime::builder().environment().progress(bars.clone());
    if let Some(cache) = &global.cache {
        builder = builder.cache(cache);
    }
    if let Some(wheel) = &global.wheel {
        builder = builder.wheel(wheel);
    }
    if let Some(bundle) = &global.bundle {
        builder = builder.bundle(bundle);
    }
    if let Some(hash) = &global.bundle_hash {
        builder = builder.bundle_hash(hash);
    }
    builder
}

/// The cache that a run would use, if it is not the default one.
pub(super) fn cache(global: &Global) -> Option<PathBuf> {
    let named = || std::env::var_os("BELLJAR_CACHE").filter(|value: &OsString| !value.is_empty());
    global.cache.clone().or_else(|| named().map(PathBuf::from))
}

/// The bundle that a run would use.
pub(super) fn bundle(global: &Global) -> Option<PathBuf> {
    let named = || std::env::var_os("BELLJAR_BUNDLE").filter(|value: &OsString| !value.is_empty());
    let is_free = global.cache.is_none();
    global.bundle.clone().or_else(|| named().filter(|_| is_free).map(PathBuf::from))
}
