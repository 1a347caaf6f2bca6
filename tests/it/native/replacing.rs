//! Packages of images that take the place of the library's.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use belljar::bundle::{BundleOptions, Processor};
use belljar::outcome::ErrorKind;
use belljar::{Request, Runtime, SessionOptions};

use super::{Side, fresh, on, own};
use crate::support::{chain, failed, run_on, succeeded, tokio};

/// Writes a wheel of these files, and returns its name.
pub(super) fn wheel(folder: &Path, name: &str, version: &str, files: &[(&str, &[u8])]) -> String {
    let is_native = files
        .iter()
        .any(|(path, _)| Path::new(path).extension().is_some_and(|ending| ending == "wasm"));
    let tag = if is_native {
        "cp315-cp315-belljar_wasm32"
    } else {
        "py3-none-any"
    };
    let file = format!("{name}-{version}-{tag}.whl");
    let mut archive = zip::ZipWriter::new(fs::File::create(folder.join(&file)).unwrap());
    let info = format!("{name}-{version}.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    let license = format!("License of {name} {version}");
    for (path, bytes) in files.iter().copied().chain([
        (format!("{info}/METADATA").as_str(), metadata.as_bytes()),
        (format!("{info}/licenses/LICENSE").as_str(), license.as_bytes()),
    ]) {
        archive.start_file(path, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut archive, bytes).unwrap();
    }
    archive.finish().unwrap();
    file
}

pub(super) fn bake(
    runtime: &Runtime,
    folder: &Path,
    name: &str,
    base: &str,
    wheels: &[String],
    imports: &[&str],
) {
    let recipe = folder.join(format!("{name}.toml"));
    let text = format!(
        "name = \"{name}\"\nbase = \"{base}\"\nwheels = {wheels:?}\nimports = {imports:?}\n"
    );
    fs::write(&recipe, text).unwrap();
    runtime.images().build(&recipe).unwrap_or_else(|e| panic!("{}", chain(&e)));
}

fn regex(folder: &Path) -> String {
    let side = Side {
        init: "PyInit__regex",
        ..Side::default()
    };
    let module = side.wasm();
    wheel(
        folder,
        "regex",
        "9999.1",
        &[
            ("regex/__init__.py", b"from regex._regex import count\nversion = 'new'\n"),
            ("regex/_regex.cpython-315-belljar_wasm32.wasm", &module),
            ("regex/json.py", b""),
        ],
    )
}

fn tabulate(folder: &Path, version: &str) -> String {
    let source = format!("version = {version:?}\n");
    wheel(
        folder,
        "tabulate",
        version,
        &[
            ("tabulate.py", source.as_bytes()),
            // Packages hide no module of the standard library, nor of other packages.
            ("json.py", b"raise ImportError"),
            ("six.py", b"raise ImportError"),
        ],
    )
}

/// Prints which of the modules can be imported, before and after caches are dropped.
const TRY: &str = "
import importlib, sys
def attempt(*names):
    for _ in range(2):
        for name in names:
            try: importlib.import_module(name)
            except ModuleNotFoundError: continue
            print(name)
        importlib.invalidate_caches()
";

/// Checks an image with `regex` and `tabulate` 9999.1, or one based on it.
const NEW: &str = "
import importlib.metadata as metadata, json, regex, six, tabulate
assert regex.version == 'new' and regex.__file__.startswith('/packages/regex/'), regex
assert tabulate.version == '9999.1' and tabulate.__file__ == '/packages/tabulate.py', tabulate
assert not six.__file__.startswith('/packages') and not json.__file__.startswith('/packages')
for name in ('regex', 'tabulate'):
    assert metadata.version(name) == '9999.1'
    found = [one.version for one in metadata.distributions() if one.metadata['Name'] == name]
    assert found == ['9999.1'], found
assert metadata.version('six') == '1.17.0'
attempt('regex._main', 'regex._regex_core', 'tabulate.version', 'regex.json')
assert regex._regex.__spec__.origin == 'built-in'
print(regex.count())
";

/// What it prints.
const COUNTED: &str = "regex.json\nregex.json\n41\n";

fn request(image: &str, code: &str) -> Request {
    Request::new(format!("{TRY}{code}")).image(image)
}

pub(super) fn printed(runtime: &Runtime, image: &str, code: &str) -> String {
    let outcome = run_on(runtime, request(image, code)).outcome;
    succeeded(&outcome);
    outcome.stdout
}

#[test]
fn a_package_takes_the_place_of_the_library_s() {
    let cache = fresh();
    let runtime = on(cache.path());
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let wheels = [regex(folder), tabulate(folder, "9999.1")];
    // The base has imported the library's version, and other modules of the library.
    bake(&runtime, folder, "old", "core", &[], &["tabulate", "six"]);
    bake(&runtime, folder, "new", "old", &wheels, &[]);
    assert_eq!(printed(&runtime, "new", NEW), COUNTED);
    let old = "import tabulate\nprint(tabulate.__file__[:14])";
    assert_eq!(printed(&runtime, "old", old), "/usr/local/lib\n");
    // The code of the library's version is not asked for.
    assert_eq!(runtime.tier().map(belljar::setup::Tier::name), Some("core"));
    let info = runtime.images().get("new").unwrap().contents.unwrap();
    assert_eq!(info.packages, ["regex==9999.1", "tabulate==9999.1"]);

    // An image based on it has its packages, with and without some of its own.
    bake(&runtime, folder, "above", "new", &[], &["regex"]);
    assert_eq!(printed(&runtime, "above", NEW), COUNTED);
    let tea = wheel(folder, "tea", "1", &[("tea.py", b"import regex, tabulate\n")]);
    bake(&runtime, folder, "tea", "above", &[tea], &["tea"]);
    assert_eq!(printed(&runtime, "tea", NEW), COUNTED);
    // Another version takes the place of that of a base, which may have imported it.
    bake(&runtime, folder, "newest", "tea", &[tabulate(folder, "9999.2")], &[]);
    let newest = NEW.replace("'tabulate'", "'regex'").replace(
        "tabulate.version == '9999.1'",
        "tabulate.version == metadata.version('tabulate') == '9999.2'",
    );
    assert_eq!(printed(&runtime, "newest", &newest), COUNTED);
    let tea = "import tea\nassert tea.tabulate.version == '9999.2'\nprint(tea.regex.count())";
    assert_eq!(printed(&runtime, "newest", tea), "41\n");

    let licenses = Runtime::builder().environment().cache(cache.path()).licenses().unwrap();
    let text = |package: &str, version: &str| {
        let is_it = |one: &&belljar::setup::License| {
            one.package == package && one.version.as_deref() == Some(version)
        };
        licenses.iter().find(is_it).map(|one| one.text.as_str())
    };
    assert_eq!(text("regex", "9999.1"), Some("License of regex 9999.1"));

    tokio(1).block_on(async {
        let session = runtime.session(SessionOptions::new().image("new")).await.unwrap();
        let run = || Request::new(format!("{TRY}{NEW}"));
        succeeded(&session.run(run()).await.unwrap());
        let fork = session.fork().await.unwrap();
        assert_eq!(fork.run(run()).await.unwrap().stdout, "regex.json\nregex.json\n42\n");
        let path = folder.join("state");
        fork.checkpoint(&path).await.unwrap();
        drop((session, fork));
        let elsewhere = on(cache.path());
        let restored = elsewhere.restore(&path).await.unwrap();
        assert_eq!(restored.run(run()).await.unwrap().stdout, "regex.json\nregex.json\n43\n");
    });

    // A bundle with the smallest code and library.
    let bundle = tempfile::tempdir().unwrap();
    let options = BundleOptions::new(["new", "newest"]).processor(Processor::ThisMachine);
    let builder = Runtime::builder().environment().cache(cache.path());
    builder.make_bundle(&options, bundle.path()).unwrap_or_else(|e| panic!("{}", chain(&e)));
    drop(runtime);
    let bundled = Runtime::builder().environment().bundle(bundle.path()).build().unwrap();
    assert_eq!(printed(&bundled, "new", NEW), COUNTED);
    assert_eq!(printed(&bundled, "newest", &newest), COUNTED);
    drop(bundled);

    // Images that are gone leave the packages of others.
    let runtime = on(cache.path());
    runtime.images().remove("newest").unwrap();
    runtime.images().remove("tea").unwrap();
    assert_eq!(printed(&runtime, "above", NEW), COUNTED);
    drop(runtime);
    // An image is made again with the packages of its base.
    fs::remove_dir_all(cache.path().join("packages")).unwrap();
    fs::remove_file(cache.path().join("images/above.image")).unwrap();
    assert_eq!(printed(&on(cache.path()), "above", NEW), COUNTED);
}

#[test]
fn a_pure_package_takes_the_place_of_one_with_native_code() {
    let cache = own();
    let runtime = on(cache.path());
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lxml = wheel(folder, "lxml", "9999", &[("lxml/__init__.py", b"version = 'new'\n")]);
    let safe = b"version = 'new'\nclass Markup(str): pass\nescape = Markup\nsoft_str = str\n";
    let safe = wheel(folder, "MarkupSafe", "9999", &[("markupsafe.py", safe)]);
    let bake = |name: &str, wheels: &[String]| bake(&runtime, folder, name, "core", wheels, &[]);
    bake("pure", &[lxml, safe]);
    let code = "
import sys, lxml, markupsafe, jinja2
print(lxml.version, jinja2.utils.markupsafe.version, jinja2.Template('{{ 1 }}').render())
attempt('lxml.etree', 'lxml.html', 'markupsafe._native')
print([name for name in sys.builtin_module_names if name.startswith('lxml')])
import _imp
print(_imp.is_builtin('lxml.etree'), _imp.is_builtin('regex._regex'))
";
    assert_eq!(printed(&runtime, "pure", code), "new new 1\n[]\n0 1\n");
    // The name of a built-in module of another package is still refused.
    let side = Side {
        init: "PyInit__imaging",
        ..Side::default()
    };
    let module = side.wasm();
    let path = "PIL/_imaging.cpython-315-belljar_wasm32.wasm";
    let tea = wheel(folder, "tea", "1", &[(path, &module)]);
    let recipe = folder.join("tea.toml");
    fs::write(&recipe, format!("name = \"tea\"\nbase = \"core\"\nwheels = [{tea:?}]\n")).unwrap();
    let error = runtime.images().build(&recipe).unwrap_err();
    assert!(chain(&error).contains("has the name of another module"), "{}", chain(&error));
    let missing = run_on(&runtime, request("pure", "import lxml.etree")).outcome;
    failed(&missing, ErrorKind::Exception);
}

/// The list of the library's packages is that of the archive.
#[test]
fn all_packages_of_the_library_are_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("python-wasm/artifacts.toml")).unwrap();
    let pins: toml::Table = toml::from_str(&text).unwrap();
    let known = pins["packages"].as_table().unwrap();
    let folders = fs::read_dir(crate::caches::shared()).unwrap();
    let mut archives = folders.map(|folder| folder.unwrap().path().join("python315.zip"));
    let archive = fs::File::open(archives.find(|path| path.is_file()).unwrap()).unwrap();
    let names: Vec<String> = zip::ZipArchive::new(archive)
        .unwrap()
        .file_names()
        .map(|name| name.unwrap().into())
        .collect();
    let tops: BTreeSet<&str> = names.iter().filter_map(|name| name.split('/').next()).collect();
    let packages: BTreeSet<String> = tops
        .iter()
        .filter_map(|name| name.strip_suffix(".dist-info")?.split('-').next())
        .map(|name| name.to_lowercase().replace(['_', '.'], "-"))
        .collect();
    assert_eq!(known.keys().cloned().collect::<BTreeSet<_>>(), packages);
    let standard = crate::support::outcome("import sys\nresult = list(sys.stdlib_module_names)");
    let standard = standard.result;
    let standard: BTreeSet<&str> =
        standard.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let modules = tops
        .iter()
        .filter(|name| !name.ends_with(".dist-info"))
        .map(|name| name.strip_suffix(".pyc").unwrap_or(name))
        .filter(|name| !standard.contains(name) && !name.starts_with('_') && *name != "host");
    let listed = known.values().flat_map(|modules| modules.as_array().unwrap());
    let listed: BTreeSet<&str> = listed.map(|name| name.as_str().unwrap()).collect();
    assert_eq!(listed, modules.collect());
}
