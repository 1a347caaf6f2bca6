//! The options of `belljar repl`.

use std::path::PathBuf;

use belljar::{
    Capture, Content, Deterministic, Echo, FigureFormat, ImageChoice, InputFile, Mount, Request,
};
use clap::{Args, ValueHint};

use crate::cli::exit::Usage;
use crate::cli::run::Bounds;
use crate::cli::source;

#[derive(Debug, Args)]
pub(in crate::cli) struct ReplArgs {
    /// Go on in the session that is kept in this file, and write the session that is current at the
    /// end back to it; the file is made if missing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) session: Option<PathBuf>,
    /// Save figures into this directory, which is made when there is one to save; files that are
    /// there already stay as they are
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
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What the code sees")]
struct Input {
    /// Copy a host file into the workspace, under its own name unless NAME says otherwise; may be
    /// given several times
    #[arg(long = "file", value_name = "PATH[:NAME]", value_hint = ValueHint::FilePath)]
    files: Vec<String>,
    /// Show a host directory to the code, read-only, at an absolute path such as `./data:/data`;
    /// may be given several times
    #[arg(long = "mount", value_name = "HOST:GUEST", value_parser = source::mount)]
    mounts: Vec<(PathBuf, String)>,
    /// Set an environment variable; none is passed on by itself; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = source::variable)]
    env: Vec<(String, String)>,
    /// Start from this image [default: data]
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Make a new session repeatable to the byte: fixed clock, random numbers from SEED [default
    /// seed: 0]
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "0")]
    deterministic: Option<u64>,
}

impl ReplArgs {
    /// What every line asks for besides its code, and a new session for itself.
    pub(super) fn request(&self) -> Result<Request, Usage> {
        let files = source::files(&self.input.files)?.into_iter();
        let mounts = self.input.mounts.iter().cloned();
        Ok(Request {
            image: match self.input.image.as_deref() {
                None | Some("auto") => ImageChoice::Auto,
                Some(name) => ImageChoice::Named(name.to_owned()),
            },
            files: files
                .map(|(path, host)| InputFile {
                    path,
                    content: Content::Host(host),
                })
                .collect(),
            mounts: mounts.map(|(host, guest)| Mount { host, guest }).collect(),
            env: self.input.env.iter().cloned().collect(),
            limits: self.bounds.limits(),
            // As Python's own prompt does.
            echo: Some(Echo::Last),
            deterministic: self.input.deterministic.map(|seed| Deterministic {
                seed,
                ..Deterministic::default()
            }),
            capture: Capture {
                figure_format: if self.svg {
                    FigureFormat::Svg
                } else {
                    FigureFormat::Png
                },
                dataframes: false,
                ..Capture::default()
            },
            ..Request::default()
        })
    }
}
