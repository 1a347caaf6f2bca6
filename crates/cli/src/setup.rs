//! `belljar setup`.

use std::sync::Arc;
use std::time::Instant;

use super::args::{Global, SetupArgs};
use super::exit::Exit;
use super::printer::Printer;
use super::{engine, text};

/// Sets up everything that is missing.
pub(super) fn setup(
    args: &SetupArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let runtime = engine::start(global, printer)?;
    runtime.compile(args.tier.into())?;
    printer.note(&format!("Python for WASI is ready ({})", text::duration(start.elapsed())));
    let images = runtime.images();
    let mut names = args.images.clone();
    if names.is_empty() {
        let built_in = images.list()?.into_iter().filter(|image| image.built_in);
        // Those that the tier has code for.
        names.extend(built_in.map(|image| image.name).take(args.tier as usize + 1));
    }
    for name in names {
        let start = Instant::now();
        images.prepare(&name)?;
        printer.note(&format!("image {name} is ready ({})", text::duration(start.elapsed())));
    }
    Ok(Exit::Success)
}
