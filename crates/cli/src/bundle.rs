//! `belljar bundle`.

use std::path::PathBuf;
use std::sync::Arc;

use belljar::{BundleInfo, BundleOptions, Processor};
use clap::{Args, ValueHint};
use serde_json::{Value, json};

use super::args::Global;
use super::engine::configure;
use super::exit::Exit;
use super::printer::Printer;
use super::progress::Bars;
use super::text::{size, table};

#[derive(Debug, Args)]
pub(super) struct BundleArgs {
    /// Put this image in; may be given several times
    #[arg(long = "image", value_name = "NAME", required = true)]
    images: Vec<String>,
    /// Make the bundle in this directory, which is not there yet
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: PathBuf,
    /// Compile for this system: x86_64-linux or aarch64-linux [default: this one]
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Compile for these processors: common, which is x86-64-v3 and every aarch64, or native, those like
    /// this machine's, which takes the code from the cache [default: common]
    #[arg(long, value_name = "KIND", default_value_t = Processor::Common, hide_default_value = true)]
    processor: Processor,
    /// Put in all of the library that the code can run: a bundle with `core` alone is otherwise made without
    /// sympy, networkx and other large packages
    #[arg(long)]
    whole_library: bool,
    /// Print what was made as JSON
    #[arg(long)]
    json: bool,
}

/// Makes a bundle.
pub(super) fn bundle(
    args: &BundleArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let mut options = BundleOptions::new(&args.images)
        .processor(args.processor)
        .whole_library(args.whole_library);
    if let Some(target) = &args.target {
        options = options.target(target);
    }
    let builder = configure(global, &Arc::new(Bars::new(printer)));
    let made = builder.make_bundle(&options, &args.output)?;
    if args.json {
        printer.json(&to_json(&made))?;
        return Ok(Exit::Success);
    }
    let left_out = made.left_out.join(" ");
    let rows = [
        ["bundle", &made.path.display().to_string()],
        ["images", &made.images.join(" ")],
        [
            "without",
            if left_out.is_empty() {
                "nothing"
            } else {
                &left_out
            },
        ],
        ["for", &format!("{}, {} processors", made.target, made.processor)],
        ["size", &format!("{} on disk", size(made.disk_bytes))],
        ["hash", &made.hash],
    ]
    .map(|row| row.map(str::to_owned));
    for line in table(&rows) {
        printer.line(&line)?;
    }
    printer.note("run from it with --bundle or BELLJAR_BUNDLE; demand its hash with --bundle-hash");
    Ok(Exit::Success)
}

fn to_json(made: &BundleInfo) -> Value {
    json!({
        "path": made.path,
        "hash": made.hash,
        "images": made.images,
        "target": made.target,
        "processor": made.processor,
        "left_out": made.left_out,
        "bytes": made.bytes,
        "disk_bytes": made.disk_bytes,
    })
}
