//! `belljar image`.

#[cfg(all(unix, feature = "compile"))]
use std::path::Path;
use std::sync::Arc;

#[cfg(all(unix, feature = "compile"))]
use anyhow::Context;
use belljar::images::ImageInfo;
#[cfg(all(unix, feature = "compile"))]
use belljar::images::PackageBuilder;
use belljar::setup::Tier;
use serde_json::{Value, json};

use super::args::{Global, ImageCommand};
use super::engine;
use super::exit::Exit;
use super::printer::Printer;
use super::progress::Bars;
use super::text::{size, table};
#[cfg(all(unix, feature = "compile"))]
use super::{args::MakeArgs, exit::Usage, package};

/// Lists, shows, bakes or removes images.
pub(super) fn image(
    command: &ImageCommand,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let images = || engine::configure(global, &Arc::new(Bars::new(printer))).images();
    match command {
        ImageCommand::List(args) => {
            let images = images()?.list()?;
            if args.json {
                printer.json(&images.iter().map(to_json).collect::<Vec<_>>())?;
            } else {
                list(&images, printer)?;
            }
        }
        ImageCommand::Inspect { name, json } => {
            let image = images()?.get(name)?;
            if json.json {
                printer.json(&to_json(&image))?;
            } else {
                inspect(&image, printer)?;
            }
        }
        #[cfg(all(unix, feature = "compile"))]
        ImageCommand::Build {
            recipe,
            build: true,
            json,
        } => build_with_packages(recipe, json.json, global, printer)?,
        ImageCommand::Build { recipe, json, .. } => {
            let image = engine::start(global, printer)?.images().build(recipe)?;
            show(&image, json.json, printer)?;
        }
        #[cfg(all(unix, feature = "compile"))]
        ImageCommand::Make(args) => make(args, global, printer)?,
        ImageCommand::Remove { name, json } => {
            images()?.remove(name)?;
            if json.json {
                printer.json(&json!({"removed": name}))?;
            } else {
                printer.note(&format!("removed image {name}"));
            }
        }
    }
    Ok(Exit::Success)
}

/// Builds an image, and packages with native code for it.
#[cfg(all(unix, feature = "compile"))]
fn build_with_packages(
    recipe: &Path,
    json: bool,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<()> {
    let images = engine::start(global, printer)?.images();
    let image = images.build_with(recipe, &package::Builder::new(global, printer))?;
    show(&image, json, printer)
}

/// Shows an image that was built.
fn show(image: &ImageInfo, json: bool, printer: &Printer) -> anyhow::Result<()> {
    if json {
        printer.json(&to_json(image))?;
    } else {
        inspect(image, printer)?;
        printer.note(&format!("start from it with --image {}", image.name));
    }
    Ok(())
}

/// Description of images of `make`.
#[cfg(all(unix, feature = "compile"))]
const MADE: &str = "made by belljar image make";

/// Makes an image from a recipe with these packages.
#[cfg(all(unix, feature = "compile"))]
fn make(args: &MakeArgs, global: &Global, printer: &Arc<Printer>) -> anyhow::Result<()> {
    let builder = package::Builder::new(global, printer);
    let in_sandbox = builder.in_sandbox()?;
    let mut packages = Vec::new();
    for package in &args.packages {
        let name = package::normal(package);
        match in_sandbox.get(&name) {
            // A recipe builds more than the sandbox has.
            Some(version) if !package.contains("==") && !builder.is_preferred(&name) => {
                printer.note(&format!(
                    "the sandbox has {package} {version} already; {package}==VERSION replaces it"
                ));
            }
            _ => packages.push(package),
        }
    }
    if packages.is_empty() {
        return Err(Usage::new("the sandbox has all of these packages; no image is needed").into());
    }
    let name = args.name.clone().unwrap_or_else(|| {
        let names: Vec<String> = packages.iter().map(|name| package::normal(name)).collect();
        names.join("-").trim_matches('-').to_owned()
    });
    let images = engine::configure(global, &Arc::new(Bars::new(printer))).images()?.list()?;
    let is_other = |image: &ImageInfo| {
        let contents = image.contents.as_ref();
        image.name == name && contents.is_none_or(|contents| contents.description != MADE)
    };
    if args.name.is_none() && images.iter().any(is_other) {
        let why = format!("there is another image {name}: give this one a name with --name");
        return Err(Usage::new(why).into());
    }
    // Strings and arrays of JSON are those of TOML.
    let recipe = format!(
        "name = {}\nbase = {}\ndescription = {}\npackages = {}\n",
        json!(name),
        json!(args.base),
        json!(MADE),
        json!(packages)
    );
    let folder = tempfile::tempdir().context("cannot create a directory")?;
    let path = folder.path().join("recipe.toml");
    std::fs::write(&path, recipe).context("cannot write the recipe")?;
    build_with_packages(&path, args.json.json, global, printer)
}

fn list(images: &[ImageInfo], printer: &Printer) -> anyhow::Result<()> {
    let heading = ["NAME", "STATE", "TIER", "MEMORY", "DISK", "DESCRIPTION"].map(str::to_owned);
    let row = |image: &ImageInfo| {
        let [memory, disk, description] = match &image.contents {
            Some(contents) => {
                [size(contents.memory_bytes), size(image.disk_bytes), contents.description.clone()]
            }
            None => ["-".into(), "-".into(), String::new()],
        };
        let state = state(image).to_owned();
        [image.name.clone(), state, tier(image).to_owned(), memory, disk, description]
    };
    let rows: Vec<_> = std::iter::once(heading).chain(images.iter().map(row)).collect();
    Ok(printer.table(&rows)?)
}

fn inspect(image: &ImageInfo, printer: &Printer) -> anyhow::Result<()> {
    let kind = if image.built_in { "built in" } else { "yours" };
    let mut rows =
        vec![["name", &image.name], ["kind", kind], ["state", state(image)], ["tier", tier(image)]]
            .into_iter()
            .map(|row| row.map(str::to_owned))
            .collect::<Vec<_>>();
    if let Some(contents) = &image.contents {
        let words = |words: &[String]| {
            if words.is_empty() {
                "-".into()
            } else {
                words.join(" ")
            }
        };
        rows.extend(
            [
                ["description", or_dash(&contents.description)],
                ["made from", or_dash(contents.base.as_deref().unwrap_or_default())],
                ["imports", &words(&contents.imports)],
                ["packages", &words(&contents.packages)],
                ["memory", &size(contents.memory_bytes)],
                ["on disk", &size(image.disk_bytes)],
                ["file", &image.path.display().to_string()],
            ]
            .map(|row| row.map(str::to_owned)),
        );
    }
    for line in table(&rows) {
        printer.line(&line)?;
    }
    Ok(())
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn state(image: &ImageInfo) -> &'static str {
    if image.contents.is_some() {
        "ready"
    } else {
        "on first use"
    }
}

/// The tier of code that it needs.
fn tier(image: &ImageInfo) -> &'static str {
    image.tier.map_or("-", Tier::name)
}

fn to_json(image: &ImageInfo) -> Value {
    let contents = image.contents.as_ref();
    json!({
        "name": image.name,
        "description": contents.map(|c| &c.description),
        "built_in": image.built_in,
        "ready": contents.is_some(),
        "tier": image.tier,
        "base": contents.and_then(|c| c.base.as_ref()),
        "imports": contents.map(|c| &c.imports),
        "packages": contents.map(|c| &c.packages),
        "memory_bytes": contents.map_or(0, |c| c.memory_bytes),
        "disk_bytes": image.disk_bytes,
        "path": image.path,
    })
}
