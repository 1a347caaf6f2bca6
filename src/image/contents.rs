//! The packages of an image: its own, and those of its bases.

use super::bake::{LockedPackage, check_names};
use super::error::BakeError;
use super::recipe::Recipe;
use crate::artifact::image::Replaced;
use crate::artifact::modules_of;

/// The packages of an image with its bases.
pub(super) struct Contents {
    /// All packages, the bases' first. A package takes the place of one of the same name below it.
    pub packages: Vec<LockedPackage>,
    /// The image's own, without those that its bases have.
    pub added: Vec<LockedPackage>,
    /// The bases' recipes and packages, the lowest first.
    pub bases: Vec<(Recipe, Vec<LockedPackage>)>,
    /// Whether an added package replaces a package that the bases may have imported.
    pub replaces: bool,
}

impl Contents {
    pub(super) fn new(bases: Vec<(Recipe, Vec<LockedPackage>)>, own: &[LockedPackage]) -> Self {
        let mut packages = Vec::new();
        for (_, below) in &bases {
            put_above(&mut packages, below);
        }
        let is_added = |package: &&LockedPackage| !packages.contains(*package);
        let added: Vec<LockedPackage> = own.iter().filter(is_added).cloned().collect();
        let is_in = |package: &LockedPackage| {
            let name = package.plain_name();
            modules_of(&name).is_some() || packages.iter().any(|below| below.plain_name() == name)
        };
        let replaces = added.iter().any(is_in);
        put_above(&mut packages, &added);
        Self {
            packages,
            added,
            bases,
            replaces,
        }
    }

    /// Fails if a package would replace a package that must stay.
    pub(super) fn check(&self, image: &str) -> Result<(), BakeError> {
        let pins: Vec<String> = self.packages.iter().map(LockedPackage::pin).collect();
        check_names(image, pins.iter().map(String::as_str))
    }

    /// Returns a key of everything that the image of a recipe with these packages depends on,
    /// except the packages.
    pub(super) fn key_of(&self, recipe: &Recipe) -> String {
        let mut base = String::new();
        for (below, _) in &self.bases {
            base = below.key(&base);
        }
        if self.packages.iter().any(LockedPackage::is_native) {
            base.push_str(&belljar_passes::link_version());
        }
        recipe.key(&base)
    }

    /// Returns the library's packages whose place others take.
    pub(super) fn replaced(&self) -> Vec<Replaced> {
        let replaced = self.packages.iter().filter_map(|package| {
            let package = package.plain_name();
            let modules = modules_of(&package)?.to_vec();
            Some(Replaced { package, modules })
        });
        replaced.collect()
    }
}

/// Adds packages, and removes those of the same names.
fn put_above(packages: &mut Vec<LockedPackage>, above: &[LockedPackage]) {
    for package in above {
        let name = package.plain_name();
        packages.retain(|below| below.plain_name() != name);
        packages.push(package.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::image::bake::read_lock;

    fn packages(list: &[&str]) -> Vec<LockedPackage> {
        let entry = |package: &&str| {
            let (name, version) = package.split_once(' ').unwrap();
            let head = format!("[[package]]\nname = {name:?}\nversion = {version:?}\n");
            format!("{head}file = \"\"\nsha256 = \"{name} {version}\"\n")
        };
        let text: String = list.iter().map(entry).collect();
        read_lock(&format!("requirements = []\n{text}")).unwrap()
    }

    fn contents(base: &[&str], own: &[&str]) -> Contents {
        let recipe = Recipe::parse("name = \"base\"", Path::new("base.toml")).unwrap();
        Contents::new(vec![(recipe, packages(base))], &packages(own))
    }

    fn pins(packages: &[LockedPackage]) -> Vec<String> {
        packages.iter().map(LockedPackage::pin).collect()
    }

    #[test]
    fn an_image_has_the_packages_of_its_base() {
        let found = contents(&["tea 1", "cup 1"], &["pot 1", "tea 1"]);
        assert_eq!(pins(&found.packages), ["tea==1", "cup==1", "pot==1"]);
        assert_eq!((pins(&found.added), found.replaces), (vec!["pot==1".to_owned()], false));
        assert!(found.replaced().is_empty());
    }

    #[test]
    fn a_package_takes_the_place_of_another_version() {
        let found = contents(&["My_Tea 1", "cup 1"], &["my.tea 2"]);
        assert_eq!(pins(&found.packages), ["cup==1", "my.tea==2"]);
        assert!(found.replaces && found.replaced().is_empty());
        let found = contents(&[], &["Pillow 99"]);
        assert!(found.replaces);
        let modules = vec!["PIL".to_owned()];
        let package = "pillow".to_owned();
        assert_eq!(found.replaced(), [Replaced { package, modules }]);
        // The base has replaced it already.
        let found = contents(&["Pillow 99"], &["tea 1"]);
        assert_eq!((found.replaces, found.replaced().len()), (false, 1));
    }
}
