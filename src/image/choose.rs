//! `image: auto`: the smallest built-in image that has imported the modules that the code names.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use belljar_passes::Tier;

use super::recipe::Recipe;
use crate::artifact::tier_of;

/// Recipes of the built-in images, smallest first.
pub(crate) static BUILT_IN: LazyLock<[Recipe; 3]> = LazyLock::new(|| {
    [
        include_str!("../../python-wasm/images/core.toml"),
        include_str!("../../python-wasm/images/data.toml"),
        include_str!("../../python-wasm/images/science.toml"),
    ]
    .map(|text| {
        Recipe::parse(text, Path::new("python-wasm/images"))
            .expect("the built-in recipes are part of this program and parse")
    })
});

/// Returns the name of the image for `code`.
pub(crate) fn choose(code: &str) -> &'static str {
    let named = imported_modules(code);
    let [smallest, larger @ ..] = &*BUILT_IN;
    larger
        .iter()
        .rev()
        .find(|recipe| recipe.imports.iter().any(|m| named.contains(top_level(m))))
        .map_or(smallest.name.as_str(), |recipe| recipe.name.as_str())
}

/// Returns the smallest tier that contains the modules named in `code`.
pub(crate) fn tier_for(code: &str) -> Tier {
    imported_modules(code).into_iter().map(tier_of).max().unwrap_or(Tier::Core)
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
            assert_eq!(choose(code), image, "{code}");
        }
    }
}
