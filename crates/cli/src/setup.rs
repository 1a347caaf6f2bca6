//! `belljar setup`.

use std::sync::Arc;
use std::time::Instant;

use super::args::{Global, SetupArgs};
use super::exit::Exit;
use super::printer::Printer;
use super::{engine, text};

/// The images that come with belljar, which are made when none is named.
const BUILT_IN: [&str; 3] = ["core", "data", "science"];

/// Sets up everything that is missing.
pub(super) fn setup(
    args: &SetupArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let runtime = engine::start(global, printer)?;
    printer.note(&format!("Python for WASI is ready ({})", text::duration(start.elapsed())));
    let mut images: Vec<&str> = args.images.iter().map(String::as_str).collect();
    if images.is_empty() {
        images.extend(BUILT_IN);
    }
    for name in images {
        let start = Instant::now();
        runtime.prepare_image(name)?;
        printer.note(&format!("image {name} is ready ({})", text::duration(start.elapsed())));
    }
    Ok(Exit::Success)
}
