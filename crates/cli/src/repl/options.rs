//! The options of `belljar repl`.

use std::path::PathBuf;

use belljar::Request;
use belljar::request::{Capture, Echo};
use clap::{Args, ValueHint};

#[cfg(feature = "server")]
use crate::args::{Global, ServerArgs};
use crate::exit::Usage;
use crate::lockdown::LockdownArgs;
use crate::options::{Bounds, Given, deterministic, figure_format, image, whole};
#[cfg(feature = "server")]
use crate::remote::Link;

#[derive(Debug, Args)]
pub(crate) struct ReplArgs {
    /// Continue the session in this file, and save the current session to it at the end; the file
    /// is created if missing. With --server, this is the name of a session on the server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) session: Option<PathBuf>,
    /// Save figures into this directory, which is created if needed; existing files are not
    /// replaced
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(default_value = "belljar-figures")]
    pub(super) out: PathBuf,
    /// Save figures as SVG instead of PNG
    #[arg(long)]
    svg: bool,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    bounds: Bounds,
    #[cfg(feature = "server")]
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) lockdown: LockdownArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What the code sees")]
struct Input {
    #[command(flatten)]
    given: Given,
    /// Start from this image; auto takes data [default: auto]
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Make a new session deterministic: fixed clock, random numbers from SEED [default seed: 0]
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "0", value_parser = whole)]
    deterministic: Option<u64>,
}

impl ReplArgs {
    /// The server that runs the code, if there is one.
    #[cfg(feature = "server")]
    pub(super) fn link(&self, global: &Global) -> Result<Option<Link>, Usage> {
        self.server.link(global, &self.lockdown, &[("--mount", self.input.given.has_mounts())])
    }

    /// The request for each line, without code, and for a new session.
    pub(super) fn request(&self) -> Result<Request, Usage> {
        let mut request = self.input.given.request()?;
        request.image = image(self.input.image.as_deref());
        request.limits = self.bounds.limits();
        // As Python's own prompt does.
        request.echo = Some(Echo::Last);
        request.deterministic = deterministic(self.input.deterministic);
        request.capture =
            Capture::default().figure_format(figure_format(self.svg)).dataframes(false);
        Ok(request)
    }
}
