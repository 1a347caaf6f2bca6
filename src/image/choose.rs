//! `image: auto`: the smallest built-in image that has imported the modules that the code names.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use belljar_passes::Tier;

use super::recipe::Recipe;
use crate::artifact::image::Replaced;
use crate::artifact::tier_of;

/// Recipes of the built-in images that need no packages, smallest first. Each is the base of the
/// next.
pub(crate) static BUILT_IN: LazyLock<[Recipe; 3]> = LazyLock::new(|| {
    [
        include_str!("../../python-wasm/images/core.toml"),
        include_str!("../../python-wasm/images/data.toml"),
        include_str!("../../python-wasm/images/science.toml"),
    ]
    .map(built_in)
});

/// Recipes of the built-in images that need packages, with their locks.
pub(crate) static WITH_PACKAGES: LazyLock<[(Recipe, &str); 5]> = LazyLock::new(|| {
    macro_rules! image {
        ($name:literal) => {
            (
                include_str!(concat!("../../python-wasm/images/", $name, ".toml")),
                include_str!(concat!("../../python-wasm/images/", $name, ".lock")),
            )
        };
    }
    [image!("office"), image!("text"), image!("charts"), image!("web"), image!("test")]
        .map(|(recipe, lock)| (built_in(recipe), lock))
});

fn built_in(text: &str) -> Recipe {
    Recipe::parse(text, Path::new("python-wasm/images"))
        .expect("the built-in recipes are part of this program and parse")
}

/// Returns the recipes of all built-in images: those without packages first.
pub(crate) fn built_in_recipes() -> impl Iterator<Item = &'static Recipe> {
    BUILT_IN.iter().chain(WITH_PACKAGES.iter().map(|(recipe, _)| recipe))
}

/// Returns the name of the image for `code`. An image with packages is chosen if it `is_ready`: a
/// run never downloads packages because its code names them. `is_ready` may be slow, so only the
/// image that would be chosen is asked about first.
pub(crate) fn choose(code: &str, is_ready: impl Fn(&str) -> bool) -> &'static str {
    let named = imported_modules(code);
    let count = |recipe: &Recipe| {
        let modules: HashSet<&str> = recipe.imports.iter().map(|m| top_level(m)).collect();
        modules.intersection(&named).count()
    };
    let [smallest, larger @ ..] = &*BUILT_IN;
    let mut with_packages: Vec<_> = WITH_PACKAGES
        .iter()
        .map(|(recipe, _)| (count(recipe), recipe))
        .filter(|(count, _)| *count > 0)
        .collect();
    with_packages.sort_by_key(|(count, _)| Reverse(*count));
    with_packages
        .into_iter()
        .map(|(_, recipe)| recipe)
        .find(|recipe| is_ready(&recipe.name))
        .or_else(|| larger.iter().rev().find(|recipe| count(recipe) > 0))
        .map_or(smallest.name.as_str(), |recipe| recipe.name.as_str())
}

/// Returns the smallest tier that contains the modules named in `code`, except those that the image
/// has replaced.
pub(crate) fn tier_for(code: &str, replaced: &[Replaced]) -> Tier {
    let mut modules = imported_modules(code);
    for module in replaced.iter().flat_map(|package| &package.modules) {
        modules.remove(module.as_str());
    }
    modules.into_iter().map(tier_of).max().unwrap_or(Tier::Core)
}

/// Returns the top-level modules in the code's import statements. Text that only looks like an
/// import, for example in a string, only leads to a larger image.
pub(crate) fn imported_modules(code: &str) -> HashSet<&str> {
    let statements = code.lines().flat_map(|line| line.split(';')).map(str::trim_start);
    let mut found = HashSet::new();
    for statement in statements {
        // `if x: import y` and the like.
        let statement = match statement.split_once(": ") {
            Some((_, rest)) if rest.starts_with("import ") || rest.starts_with("from ") => rest,
            _ => statement,
        };
        if let Some(rest) = statement.strip_prefix("from ") {
            found.insert(top_level(rest.trim_start()));
        } else if let Some(rest) = statement.strip_prefix("import ") {
            found.extend(rest.split(',').map(|m| top_level(m.trim_start())));
        }
    }
    found.remove("");
    found
}

fn top_level(module: &str) -> &str {
    let end = module.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(module.len());
    &module[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_image_that_covers_the_imports() {
        for (code, image) in [
            ("print(1)", "core"),
            ("import json, os.path as p", "core"),
            ("import pandas as pd", "data"),
            ("import os, numpy as np", "data"),
            ("def f():\n    from matplotlib import pyplot as plt", "data"),
            ("try: import pandas\nexcept ImportError: pass", "data"),
            ("x = 1; from sklearn.linear_model import LinearRegression", "science"),
            ("import pandas\nimport scipy.stats", "science"),
            ("import seaborn as sns", "science"),
            ("from .pandas import x", "core"),
            ("important = 'import' # pandas", "core"),
        ] {
            assert_eq!(choose(code, |_| true), image, "{code}");
        }
    }

    #[test]
    fn an_image_with_packages_is_chosen_where_it_is_ready() {
        let code = "import pandas as pd\nfrom docx import Document";
        assert_eq!(choose(code, |_| true), "office");
        assert_eq!(choose(code, |_| false), "data");
        assert_eq!(choose("import openpyxl", |_| true), "core");
        assert_eq!(choose("import docx, faker, nltk", |_| true), "text");
        assert_eq!(choose("import docx, faker, nltk", |name| name == "office"), "office");
        assert_eq!(choose("import requests, plotly", |_| true), "charts");
        let only_text = |name: &str| {
            assert_eq!(name, "text");
            true
        };
        assert_eq!(choose("import docx, faker, nltk", only_text), "text");
    }

    /// The runner's hints name the image of each module, except those that only reach a network.
    #[test]
    fn the_hints_know_the_modules_of_images_with_packages() {
        let hints = include_str!("../../python-wasm/runner/run/hints.py");
        let (_, list) = hints.split_once("_IN_IMAGES = {").unwrap();
        let (list, _) = list.split_once('}').unwrap();
        let known: Vec<String> = list.lines().map(|line| line.trim().to_owned()).collect();
        let images = WITH_PACKAGES.iter().filter(|(recipe, _)| recipe.name != "web");
        for (recipe, _) in images {
            for module in &recipe.imports {
                let line = format!("\"{}\": \"{}\",", top_level(module), recipe.name);
                assert!(known.contains(&line), "{line}");
            }
        }
    }
}
