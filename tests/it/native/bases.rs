//! Packages of images, and those of the images on which they are based.

use std::fs;
use std::path::Path;

use belljar::Runtime;

use super::replacing::{bake, printed, wheel};
use super::{fresh, on};
use crate::support::chain;

fn build(runtime: &Runtime, folder: &Path, name: &str, rest: &str) -> Result<(), String> {
    let recipe = folder.join(format!("{name}.toml"));
    fs::write(&recipe, format!("name = \"{name}\"\n{rest}")).unwrap();
    runtime.images().build(&recipe).map(|_| ()).map_err(|error| chain(&error))
}

fn refused(runtime: &Runtime, folder: &Path, rest: &str, parts: &[&str]) {
    let error = build(runtime, folder, "refused", rest).unwrap_err();
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn an_image_finds_its_own_packages_and_those_of_its_base() {
    let cache = fresh();
    let runtime = on(cache.path());
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let pot = wheel(folder, "pot", "1", &[("pot.py", b"" as &[u8]), ("set/pot.py", b"")]);
    let cup = wheel(folder, "cup", "1", &[("cup.py", b"" as &[u8]), ("set/cup.py", b"")]);
    // The importer of the base has looked at its packages.
    bake(&runtime, folder, "pot", "core", &[pot], &["pot", "set.pot", "importlib.metadata"]);
    let look = "import importlib.metadata as m\nassert m.version(\"pot\")";
    let looked = format!("base = \"pot\"\nimports = [\"set\"]\ninit = '''\n{look}\n'''");
    build(&runtime, folder, "looked", &looked).unwrap();
    bake(&runtime, folder, "cup", "looked", &[cup], &["cup", "set.cup"]);
    let code = "import importlib.metadata as m, pot, set.pot\nprint(m.version('cup'))";
    assert_eq!(printed(&runtime, "cup", code), "1\n");

    // A package's files do not mix with those of another.
    let teas = [("teas", "pot.py"), ("my-teas", "set/pot.py")];
    for (name, path) in teas {
        let file = name.replace('-', "_");
        let other = wheel(folder, &file, "1", &[(path, b"x = 1" as &[u8])]);
        let rest = format!("base = \"cup\"\nwheels = [{other:?}]");
        refused(&runtime, folder, &rest, &[&file, "pot==1", path]);
    }
    let same = wheel(folder, "same", "1", &[("pot.py", b"" as &[u8]), ("set/same.py", b"")]);
    bake(&runtime, folder, "same", "cup", &[same], &["set.same"]);

    // The files of packages go with the last image that has them, in any order.
    for name in ["pot", "looked", "same", "cup"] {
        runtime.images().remove(name).unwrap();
    }
    let left = fs::read_dir(cache.path().join("packages")).unwrap();
    let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_image_is_made_again_after_any_of_its_bases() {
    let cache = fresh();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let build = |name: &str, rest: &str| build(&on(cache.path()), folder, name, rest);
    let lowest = |value: u32| {
        let init = format!("import builtins; builtins.tea = {value}");
        build("lowest", &format!("base = \"core\"\ninit = \"{init}\"")).unwrap();
    };
    lowest(1);
    build("middle", "base = \"lowest\"").unwrap();
    build("above", "base = \"middle\"").unwrap();
    build("top", "base = \"above\"").unwrap();
    assert_eq!(printed(&on(cache.path()), "top", "print(tea)"), "1\n");
    lowest(2);
    assert_eq!(printed(&on(cache.path()), "top", "print(tea)"), "2\n");

    // An image is not its own base.
    for base in ["middle", "top"] {
        let error = build("lowest", &format!("base = {base:?}")).unwrap_err();
        assert!(error.contains(&format!("lowest.toml: base {base:?} is based on")), "{error}");
    }
    assert_eq!(printed(&on(cache.path()), "top", "print(tea)"), "2\n");
}

#[test]
fn packages_on_which_the_sandbox_relies_are_not_replaced() {
    let cache = fresh();
    let runtime = on(cache.path());
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    for name in ["numpy", "Pandas", "matplotlib"] {
        let other = wheel(folder, name, "9999", &[]);
        let rest = format!("base = \"core\"\nwheels = [{other:?}]");
        refused(&runtime, folder, &rest, &[name, "the sandbox's own"]);
        // Before it is downloaded or built.
        let rest = format!("base = \"core\"\npackages = [\"{name}==9999\"]");
        refused(&runtime, folder, &rest, &[name, "the sandbox's own"]);
    }
}
