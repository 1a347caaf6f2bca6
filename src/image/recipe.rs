//! Recipes: TOML files that describe how an image is built.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::artifact::PINS;
use crate::artifact::cache::seal::hash_bytes;
use crate::util::cause::Cause;
use crate::util::error_code::{Code, Coded};

/// The loader of the runner, and the runner's modules by dotted name, with their sources.
pub(super) use sources::{BOOTSTRAP, MODULES};

mod sources {
    include!(concat!(env!("OUT_DIR"), "/runner.rs"));
}

/// Increased when images must be rebuilt although neither recipe nor runner changed: the order of
/// preopened directories, or the way images are baked.
const BAKERY: u32 = 3;

/// Returns the key that all images of this program depend on.
pub(crate) fn stamp() -> String {
    hash_bytes(foundation("").as_bytes())
}

/// Returns a key of everything except the recipe: the artifact with its patches, and the runner, by
/// the hash computed when this program was built.
fn foundation(base: &str) -> String {
    format!(
        "{BAKERY}\n{base}\n{}\n{}\n{}\n{}\n",
        PINS.files.module.sha256,
        PINS.files.stdlib.sha256,
        belljar_passes::versions(),
        sources::HASH,
    )
}

/// A recipe is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read the recipe {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The file is not a recipe.
    #[error("{path} is not a recipe", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: Cause,
    },
    /// A field has an invalid value.
    #[error("{path}: {field} {value:?} {why}", path = path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: String,
        /// What is wrong with the value.
        why: &'static str,
    },
}

impl Coded for RecipeError {
    fn code(&self) -> Code {
        match self {
            Self::Read { .. } => Code::RecipeRead,
            Self::Parse { .. } => Code::RecipeParse,
            Self::Field { .. } => Code::RecipeField,
        }
    }
}

/// The contents of an image.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    /// The image's name: lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// The image that it is based on. Default `data`.
    #[serde(default = "default_base")]
    pub base: String,
    /// Description in one sentence.
    #[serde(default)]
    pub description: String,
    /// Packages to add, such as `plotly==6.5.0`; pure Python only, without their dependencies.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Wheel files to add, relative to the recipe. Their native modules must be compiled for
    /// belljar.
    #[serde(default)]
    pub wheels: Vec<String>,
    /// Code to run before the imports, such as stand-ins for compiled packages.
    #[serde(default)]
    pub prepare: String,
    /// Modules to import.
    #[serde(default)]
    pub imports: Vec<String>,
    /// Code to run after the imports. Its changes to modules stay, its variables do not.
    #[serde(default)]
    pub init: String,
    /// Code whose first execution is slow. It is run once, so that users get the faster second
    /// execution.
    #[serde(default)]
    pub warm_up: String,
    #[serde(skip)]
    text: String,
}

fn default_base() -> String {
    "data".into()
}

impl Recipe {
    /// Reads a recipe file.
    pub(crate) fn read(path: &Path) -> Result<Self, RecipeError> {
        let text = fs::read_to_string(path).map_err(|source| RecipeError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Parses a recipe's text. Errors name `path`.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, RecipeError> {
        let mut recipe: Self = toml::from_str(text).map_err(|source| RecipeError::Parse {
            path: path.to_owned(),
            source: Cause::new(source),
        })?;
        text.clone_into(&mut recipe.text);
        recipe.check(path)?;
        Ok(recipe)
    }

    fn check(&self, path: &Path) -> Result<(), RecipeError> {
        let field = |field, value: &str, why| {
            Err(RecipeError::Field {
                path: path.to_owned(),
                field,
                value: value.to_owned(),
                why,
            })
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(plain) {
            return field("name", &self.name, "must be 1 to 64 of a-z, 0-9, - and _");
        }
        if self.name == "auto" || self.name == self.base {
            return field("name", &self.name, "cannot be the name of an image of one's own");
        }
        let module = |m: &&String| {
            m.is_empty() || !m.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
        };
        if let Some(bad) = self.imports.iter().find(module) {
            return field("imports", bad, "is not the name of a module");
        }
        let package = |p: &&String| {
            // A path is not a valid name: pip would build its contents.
            !p.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                || !p.chars().all(|c| c.is_ascii_alphanumeric() || "._-=".contains(c))
        };
        if let Some(bad) = self.packages.iter().find(package) {
            return field("packages", bad, "is not of the form name or name==version");
        }
        let wheel = |wheel: &&String| {
            let path = Path::new(wheel);
            let is_part = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            let is_below = path.components().all(is_part);
            !is_below || path.extension().is_none_or(|ending| ending != "whl")
        };
        if let Some(bad) = self.wheels.iter().find(wheel) {
            return field("wheels", bad, "is not the path of a wheel below the recipe's directory");
        }
        Ok(())
    }

    /// Returns the recipe's text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns a key of everything that the image depends on: the artifact with its patches, the
    /// runner, this recipe, and its base.
    pub(crate) fn key(&self, base: &str) -> String {
        let mut all = foundation(base);
        all.push_str(&self.text);
        hash_bytes(all.as_bytes())
    }

    /// Returns the code that imports the image's modules, with the code before and after it.
    pub(super) fn import_code(&self) -> String {
        let mut code = self.prepare.clone();
        if !code.is_empty() && !code.ends_with('\n') {
            code.push('\n');
        }
        for module in &self.imports {
            code.push_str("import ");
            code.push_str(module);
            code.push('\n');
        }
        code.push_str(&self.init);
        code
    }

    /// Returns the part of the recipe that contains a line of that code. An unknown line belongs to
    /// `init`, if there is one: failed imports report their line.
    pub(super) fn part_of_import_code(&self, line: Option<u64>) -> &'static str {
        let prepared = self.prepare.lines().count() as u64;
        let imported = prepared + self.imports.len() as u64;
        match line {
            Some(line) if line <= prepared => "prepare",
            Some(line) if line <= imported => "imports",
            _ if self.init.is_empty() => "imports",
            _ => "init",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_package(package: &str) -> Result<Recipe, RecipeError> {
        let text = format!("name = \"own\"\npackages = [{package:?}]");
        Recipe::parse(&text, Path::new("own.toml"))
    }

    /// With a path, pip would run code from it on the host; an option would change what pip does.
    #[test]
    fn a_package_is_a_name_and_neither_a_path_nor_an_option() {
        for package in ["plotly", "plotly==6.5.0", "zope.interface==8.0", "3to2", "_decimal"] {
            assert!(with_package(package).is_ok(), "{package}");
        }
        for package in [
            ".",
            "..",
            "./own",
            "../own",
            "/own",
            "own/here",
            ".hidden",
            "-r",
            "--pre",
            "-e.",
            "=1",
            "own @ file",
            "",
        ] {
            let refused = with_package(package).unwrap_err().to_string();
            assert!(refused.contains("is not of the form name or name==version"), "{refused}");
        }
    }

    #[test]
    fn a_wheel_is_below_the_recipe() {
        let parse = |wheel: &str| {
            let text = format!("name = \"own\"\nwheels = [{wheel:?}]");
            Recipe::parse(&text, Path::new("own.toml"))
        };
        for wheel in ["own-1-py3-none-any.whl", "dist/own.whl", "./own.whl"] {
            assert!(parse(wheel).is_ok(), "{wheel}");
        }
        for wheel in ["/own.whl", "../own.whl", "dist/../../own.whl", "own", ""] {
            let refused = parse(wheel).unwrap_err().to_string();
            assert!(refused.contains("is not the path of a wheel"), "{refused}");
        }
    }
}
