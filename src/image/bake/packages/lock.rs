//! The lock file next to a recipe.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::LockedPackage;

/// Versions and hashes of a recipe's packages.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LockFile {
    pub requirements: Vec<String>,
    #[serde(default)]
    pub package: Vec<LockedPackage>,
    /// Packages that are built here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub built: Vec<LockedSource>,
}

/// A package that is built from its source. Its wheel may differ between machines.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LockedSource {
    pub name: String,
    pub version: String,
    /// SHA-256 of its source.
    pub source: String,
}

impl LockFile {
    /// Checks that its packages are those of its requirements, each of them once. Dependencies are
    /// not followed, so nothing else belongs here.
    pub fn check(&self) -> Result<(), String> {
        let pure = self.package.iter().map(|package| (&package.name, &package.version));
        let built = self.built.iter().map(|source| (&source.name, &source.version));
        let mut locked = BTreeMap::new();
        for (name, version) in pure.chain(built) {
            let is_plain = |text: &str| {
                text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-+!".contains(c))
            };
            if !is_plain(name) || !is_plain(version) {
                return Err(format!("{name:?} {version:?} is not a package and its version"));
            }
            if locked.insert(plain_name(name), version).is_some() {
                return Err(format!("it has {name} twice"));
            }
        }
        for requirement in &self.requirements {
            let (name, wanted) = match requirement.split_once("==") {
                Some((name, version)) => (name, Some(version)),
                None => (requirement.as_str(), None),
            };
            let Some(found) = locked.remove(&plain_name(name)) else {
                return Err(format!("it lacks {name}, or the recipe names it twice"));
            };
            if wanted.is_some_and(|wanted| plain_version(wanted) != plain_version(found)) {
                return Err(format!("it has {name} {found}, and the recipe wants {requirement}"));
            }
        }
        locked.pop_first().map_or(Ok(()), |(name, _)| {
            Err(format!("it has {name}, which the recipe does not name"))
        })
    }
}

/// Returns a package's name in the form that is equal for all ways to write it.
pub(super) fn plain_name(name: &str) -> String {
    let (first, rest) = name.split_at(name.ceil_char_boundary(1));
    let parts = rest.split(['-', '_', '.']).filter(|part| !part.is_empty());
    // `_decimal` is not `decimal`.
    format!("{first}{}", parts.collect::<Vec<_>>().join("-")).to_lowercase()
}

/// Does the same for versions, without what pip ignores when it compares them.
fn plain_version(version: &str) -> String {
    let version = version.to_lowercase().replace(['-', '_'], ".");
    version.trim_end_matches(".0").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_the_packages_of_its_requirements() {
        let check = |requirements: &[&str], locked: &[(&str, &str)]| {
            let package = |(name, version): &(&str, &str)| LockedSource {
                name: (*name).into(),
                version: (*version).into(),
                source: String::new(),
            };
            let lock = LockFile {
                requirements: requirements.iter().map(|&one| one.into()).collect(),
                package: Vec::new(),
                built: locked.iter().map(package).collect(),
            };
            lock.check()
        };
        for (requirement, locked) in [
            ("tea", ("tea", "1")),
            ("My.Tea==1.0", ("my_tea", "1")),
            ("tea==1.0-post1", ("tea", "1.0.post1")),
            ("_tea", ("_tea", "1!2+x")),
        ] {
            assert_eq!(check(&[requirement], &[locked]), Ok(()));
        }
        for (requirements, locked, why) in [
            (&["tea"][..], &[][..], "lacks tea"),
            (&["tea"], &[("tea", "1"), ("evil", "1")], "has evil, which the recipe does not"),
            (&["tea"], &[("tea", "1"), ("Tea", "2")], "has Tea twice"),
            (&["tea==1"], &[("tea", "2")], "wants tea==1"),
            (&["tea==1"], &[("tea", "10")], "wants tea==1"),
            (&["_tea"], &[("tea", "1")], "lacks _tea"),
            (&["-r"], &[("-r", "1")], "is not a package"),
        ] {
            let error = check(requirements, locked).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
