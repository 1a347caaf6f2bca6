//! The program of a worker that an embedding program starts.

use std::error::Error;

use belljar::Runtime;
use serde::de::DeserializeOwned;

use super::{Server, inherited};
use crate::front::WorkerChannel;
use crate::http::app::Settings;
use crate::http::face::{Face, Faces};
use crate::service::Service;

/// Serves the program that started this one with [`WorkerProcess`](crate::front::WorkerProcess),
/// until that ends. `build` makes the runtime from the settings given there. Then this process is
/// locked down, as far as the kernel can.
///
/// Call this first: it closes all descriptors without close-on-exec, except the standard streams,
/// since the program that started this one may have left open its own.
///
/// # Errors
///
/// Fails if another program started this one, if open descriptors cannot be listed, or if `build`
/// fails.
pub fn serve_worker<S, E>(
    build: impl FnOnce(S) -> Result<Runtime, E>,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    S: DeserializeOwned,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    inherited::close()?;
    let channel = WorkerChannel::begin()?;
    let runtime = build(channel.settings()?).map_err(Into::into)?;
    let reactor = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = reactor.block_on(async {
        let mut plan = runtime.lockdown();
        // The default directory is shared with other programs.
        if let Some(directory) = std::env::var_os("TMPDIR") {
            plan = plan.write(directory);
        }
        let held = plan.apply_by_default().to_string();
        let settings = Settings {
            faces: Faces::from_iter([Face::V1]),
            ..Settings::default()
        };
        let (server, shutdown) = Server::of_worker(channel, Service::builder(runtime), settings)?;
        tokio::select! {
            ended = server.lockdown(held).run(shutdown.stopped()) => ended?,
            () = shutdown.gone() => {}
        }
        Ok(())
    });
    reactor.shutdown_background();
    ended
}
