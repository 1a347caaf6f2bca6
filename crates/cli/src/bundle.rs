//! `belljar bundle`.

mod packed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use belljar::RuntimeBuilder;
use belljar::bundle::{BundleInfo, BundleOptions, Processor};
use clap::{Args, ValueHint};
use serde_json::{Value, json};

use super::args::Global;
use super::engine::configure;
use super::exit::{Exit, Usage};
use super::printer::Printer;
use super::progress::Bars;
use super::text::{size, table};

#[derive(Debug, Args)]
pub(super) struct BundleArgs {
    /// Include this image; repeatable
    #[arg(long = "image", value_name = "NAME", required = true)]
    images: Vec<String>,
    /// Create the bundle as this directory, which must not exist, or as a packed file if the name
    /// ends in .tar.zst
    #[arg(short, long, value_name = "DIR|FILE", value_hint = ValueHint::AnyPath)]
    output: PathBuf,
    /// Target system: x86_64-linux, aarch64-linux or x86_64-windows [default: this system]
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Target processors: common, which is x86-64-v3 or any aarch64; or native, processors like
    /// this one, with the code from the cache [default: common]
    #[arg(long, value_name = "KIND", default_value_t = Processor::Common, hide_default_value = true)]
    processor: Processor,
    /// Include all of the library that the code can run; otherwise a bundle with `core` alone
    /// leaves out sympy, networkx and other large packages
    #[arg(long)]
    whole_library: bool,
    /// Print the result as JSON
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
    let (made, packed_bytes) = if packed::is_packed(&args.output) {
        let (made, bytes) = make_packed(builder, &options, &args.output, printer)?;
        (made, Some(bytes))
    } else {
        (builder.make_bundle(&options, &args.output)?, None)
    };
    if args.json {
        printer.json(&to_json(&made, packed_bytes))?;
        return Ok(Exit::Success);
    }
    let left_out = made.left_out.join(" ");
    let on_disk = format!("{} on disk", size(made.disk_bytes));
    let sizes = match packed_bytes {
        Some(bytes) => format!("{}, {on_disk} when unpacked", size(bytes)),
        None => on_disk,
    };
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
        ["size", &sizes],
        ["hash", &made.hash],
    ]
    .map(|row| row.map(str::to_owned));
    for line in table(&rows) {
        printer.line(&line)?;
    }
    let first = if packed_bytes.is_some() {
        "unpack it with `tar --zstd -xf`, "
    } else {
        ""
    };
    printer.note(&format!(
        "{first}run from it with --bundle or BELLJAR_BUNDLE; demand its hash with --bundle-hash"
    ));
    Ok(Exit::Success)
}

/// Creates a bundle in a temporary directory and packs it into the file.
fn make_packed(
    builder: RuntimeBuilder,
    options: &BundleOptions,
    to: &Path,
    printer: &Printer,
) -> anyhow::Result<(BundleInfo, u64)> {
    if to.symlink_metadata().is_ok() {
        let message = format!("{} already exists", to.display());
        return Err(Usage::new(message).hint("choose a name that does not exist yet").into());
    }
    let place = packed::directory_of(to);
    let unpacked = tempfile::Builder::new()
        .prefix(".bundle-")
        .tempdir_in(place)
        .with_context(|| format!("cannot create a directory in {}", place.display()))?;
    let mut made = builder.make_bundle(options, unpacked.path())?;
    printer.note(&format!("packing {}, a minute or two", size(made.disk_bytes)));
    let bytes = packed::pack(unpacked.path(), to)
        .with_context(|| format!("cannot pack a bundle into {}", to.display()))?;
    to.clone_into(&mut made.path);
    Ok((made, bytes))
}

fn to_json(made: &BundleInfo, packed_bytes: Option<u64>) -> Value {
    json!({
        "path": made.path,
        "hash": made.hash,
        "images": made.images,
        "target": made.target,
        "processor": made.processor,
        "left_out": made.left_out,
        "bytes": made.bytes,
        "disk_bytes": made.disk_bytes,
        "packed_bytes": packed_bytes,
    })
}
