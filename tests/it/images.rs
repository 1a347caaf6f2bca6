//! Custom images, and the list of built-in ones.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use belljar::outcome::ErrorKind;
use belljar::{Error, Request, Runtime};

use crate::support::{apart, chain, failed, run_on, runtime};

/// A runtime with its own cache for these tests, with code and built-in images from the shared one.
/// Concurrent tests share it; the last removes it.
fn own() -> Arc<(Runtime, tempfile::TempDir)> {
    static OWN: Mutex<Weak<(Runtime, tempfile::TempDir)>> = Mutex::new(Weak::new());
    let mut shared = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let dir = crate::caches::copy_of_the_shared_one();
        let own =
            Arc::new((Runtime::builder().environment().cache(dir.path()).build().unwrap(), dir));
        *shared = Arc::downgrade(&own);
        own
    })
}

fn recipe(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

#[track_caller]
fn refused(runtime: &Runtime, text: &str) -> String {
    let error = runtime.images().build(recipe(text).path()).unwrap_err();
    chain(&error)
}

/// Writes a wheel of one pure Python package with these and `more` files.
pub(crate) fn wheel(
    folder: &Path,
    (name, version): (&str, &str),
    code: &str,
    more: &[(&str, &str)],
) {
    let file = fs::File::create(folder.join(format!("{name}-{version}-py3-none-any.whl"))).unwrap();
    let mut archive = zip::ZipWriter::new(file);
    let about = format!("{name}-{version}.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    let kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let record = format!("{name}/__init__.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n");
    let record = format!("{record}{about}/RECORD,,\n");
    let usual = [
        (format!("{name}/__init__.py"), code),
        (format!("{about}/METADATA"), &metadata),
        (format!("{about}/WHEEL"), kind),
        (format!("{about}/RECORD"), &record),
    ];
    let more = more.iter().map(|(path, text)| ((*path).to_owned(), *text));
    for (path, text) in usual.into_iter().chain(more) {
        archive.start_file(path, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
}

/// pip installs them from a directory, without network.
#[test]
fn packages_are_added() {
    let index = std::env::temp_dir().join(format!("belljar-test-index-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &index);
    apart("images::packages_are_added", &mut command, || {
        let index = PathBuf::from(std::env::var_os("PIP_FIND_LINKS").unwrap());
        fs::create_dir(&index).unwrap();
        let ring = "from rope import LENGTH\n\n\ndef ring():\n    return LENGTH * 2\n";
        wheel(&index, ("clapper", "1.2.0"), ring, &[]);
        wheel(&index, ("rope", "0.3"), "LENGTH = 21\n", &[]);
        with_packages();
        fs::remove_dir_all(index).unwrap();
    });
}

fn with_packages() {
    let own = own();
    let (runtime, dir) = &*own;
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("bell.toml");
    let text = "name = \"bell\"\nbase = \"core\"\nimports = [\"clapper\"]\n\
                packages = [\"clapper==1.2.0\", \"rope==0.3\"]\n";
    fs::write(&recipe, text).unwrap();
    let info = runtime.images().build(&recipe).unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert!(!info.built_in, "{info:?}");
    let contents = info.contents.unwrap();
    assert!(contents.memory_bytes > 0, "{contents:?}");
    assert_eq!(contents.base.as_deref(), Some("core"));
    assert_eq!(contents.packages, ["clapper==1.2.0", "rope==0.3"]);

    let run = |code: &str| run_on(runtime, Request::new(code).image("bell")).outcome;
    let code = "import sys\nprint('clapper' in sys.modules)\nimport clapper\nprint(clapper.ring())";
    assert_eq!(run(code).stdout, "True\n42\n");
    // A run cannot change the image's mounted files.
    let outcome = run("import clapper\nopen(clapper.__file__, 'w')");
    failed(&outcome, ErrorKind::Exception);
    let read = "import clapper\nprint(open(clapper.__file__).readline())";
    assert_eq!(run(read).stdout, "from rope import LENGTH\n\n");

    // It is pinned: the lock file next to the recipe has the hash of every file.
    let lock = folder.path().join("bell.lock");
    let text = fs::read_to_string(&lock).unwrap();
    let wheels: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| line.strip_prefix("sha256 = \"")?.strip_suffix('"'))
        .map(|hash| dir.path().join("wheels").join(hash))
        .collect();
    assert!(wheels.len() == 2 && wheels.iter().all(|wheel| wheel.exists()), "{text}");
    runtime.images().remove("bell").unwrap();
    assert!(!wheels.iter().any(|wheel| wheel.exists()), "{wheels:?}");
    assert!(runtime.images().get("bell").is_err());
    assert!(runtime.blocking().run(Request::new("1").image("bell")).is_err());
    // From then on only those files are accepted.
    fs::write(&lock, text.replace("sha256 = \"", "sha256 = \"0")).unwrap();
    let error = runtime.images().build(&recipe).unwrap_err();
    assert!(chain(&error).contains("its hashes are not those"), "{}", chain(&error));
}

const BREWED: &str = "\
def brew(cup):
    '''A docstring that is long enough.'''
    return cup / 0
";

/// A module that was not imported when the image was made is loaded, and not compiled.
#[test]
fn modules_of_packages_are_compiled_with_the_image() {
    let own = own();
    let (runtime, dir) = &*own;
    let folder = tempfile::tempdir().unwrap();
    let more = [("pot/brewed.py", BREWED), ("pot/template.py", "{{ name }} = (\n")];
    wheel(folder.path(), ("pot", "1.0"), "NAME = 'pot'\n", &more);
    let path = folder.path().join("pot.toml");
    let text = "name = \"pot\"\nbase = \"core\"\nwheels = [\"pot-1.0-py3-none-any.whl\"]\n";
    fs::write(&path, text).unwrap();
    runtime.images().build(&path).unwrap_or_else(|e| panic!("{}", chain(&e)));
    let run = |code: &str| run_on(runtime, Request::new(code).image("pot")).outcome;
    let code = "import importlib.machinery, importlib.util, inspect, linecache, os
def refused(*_): raise AssertionError('compiled')
kept = importlib.machinery.SourceFileLoader.source_to_code
importlib.machinery.SourceFileLoader.source_to_code = refused
import pot.brewed
importlib.machinery.SourceFileLoader.source_to_code = kept
print(pot.__file__, pot.brewed.__file__, pot.brewed.__spec__.cached)
print(pot.brewed.brew.__code__.co_filename, inspect.getsource(pot.brewed.brew).count('\\n'))
print(pot.brewed.brew.__doc__)
try: import pot.template
except SyntaxError as e: print(e.filename, e.lineno)
head = open(pot.brewed.__spec__.cached, 'rb').read(16)
print(head[4], head[8:] == importlib.util.source_hash(open(pot.brewed.__file__, 'rb').read()))
print(os.listdir('/packages/pot/__pycache__'))
pot.brewed.brew(1)
";
    let outcome = run(code);
    assert_eq!(
        outcome.stdout,
        "/packages/pot/__init__.py /packages/pot/brewed.py \
         /packages/pot/__pycache__/brewed.cpython-315.pyc\n\
         /packages/pot/brewed.py 3\nA docstring that is long enough.\n/packages/pot/template.py 1\n\
         1 True\n['__init__.cpython-315.pyc', 'brewed.cpython-315.pyc']\n"
    );
    assert!(outcome.stderr.contains("/packages/pot/brewed.py\", line 3, in brew"), "{outcome:?}");
    assert!(outcome.stderr.contains("return cup / 0"), "{outcome:?}");

    // The code is the same in another cache.
    let packed = |cache: &Path| -> Vec<Vec<u8>> {
        let files = fs::read_dir(cache.join("packages")).unwrap().map(|file| file.unwrap().path());
        let of_pot = |file: &Vec<u8>| file.windows(13).any(|part| part == b"pot/brewed.py");
        files.map(|file| fs::read(file).unwrap()).filter(of_pot).collect()
    };
    let other = crate::caches::copy_of_the_shared_one();
    let second = Runtime::builder().environment().cache(other.path()).build().unwrap();
    second.images().build(&path).unwrap();
    let (first, second) = (packed(dir.path()), packed(other.path()));
    assert!(first.len() == 1 && first == second);
    runtime.images().remove("pot").unwrap();
    assert!(packed(dir.path()).is_empty());
}

#[test]
fn an_image_keeps_what_its_code_did_to_modules() {
    let own = own();
    let (runtime, dir) = &*own;
    let text = "name = \"mine\"\nbase = \"core\"\nimports = [\"csv\"]\ninit = '''\nimport csv\n\
                csv.marker = 5\nvariable = 1\nopen('left.txt', 'w').write('x')\n'''\n";
    let info = runtime.images().build(recipe(text).path()).unwrap();
    let code = "import csv, os\nprint(csv.marker, 'variable' in globals(), os.listdir('.'))";
    let request = Request::new(code).image("mine");
    assert_eq!(run_on(runtime, request.clone()).outcome.stdout, "5 False []\n");

    // It exists for the next process, too.
    let second = Runtime::builder().environment().cache(dir.path()).build().unwrap();
    assert_eq!(run_on(&second, request).outcome.stdout, "5 False []\n");
    assert_eq!(second.images().get("mine").unwrap().path, info.path);

    // Building it again uses the new recipe.
    runtime.images().build(recipe(&text.replace("= 5", "= 6")).path()).unwrap();
    let outcome = run_on(runtime, Request::new(code).image("mine")).outcome;
    assert_eq!(outcome.stdout, "6 False []\n");
}

/// Counting a reference writes to the page of the object, so objects of an image are not counted;
/// objects created by the code are freed as usual.
#[test]
fn what_an_image_holds_is_immortal() {
    const CODE: &str = "import sys, weakref\n\
        class Thing: pass\n\
        thing = Thing()\n\
        gone = weakref.ref(thing)\n\
        del thing\n\
        def parts(function):\n    \
            code = function.__code__\n    \
            return function, code, code.co_consts, code.co_names, *code.co_names\n\
        held = [thing for name in names for thing in parts(eval(name, sys.modules))]\n\
        print(all(map(sys._is_immortal, held)), len(held) > 20)\n\
        print(gone() is None, sys._is_immortal(Thing), sys.getrefcount(gone) < 10)\n";
    let own = own();
    let (runtime, _) = &*own;
    let text = "name = \"lasting\"\nbase = \"core\"\nimports = [\"csv\"]\ninit = '''\nimport csv\n\
                def one(text): return [text.strip(), 'a constant', (1.5, 'in a tuple')]\n\
                csv.one = one\n'''\n";
    runtime.images().build(recipe(text).path()).unwrap();
    for (image, names) in [
        ("core", "['json.dumps', 'os.makedirs', 'inspect.getsource']"),
        ("data", "['json.dumps', 'pandas.read_csv', 'pandas.DataFrame.head']"),
        ("lasting", "['json.dumps', 'csv.one', 'csv.DictReader.__next__']"),
    ] {
        let code = format!("names = {names}\n{CODE}");
        let outcome = run_on(runtime, Request::new(code).image(image)).outcome;
        assert_eq!(outcome.stdout, "True True\nTrue False True\n", "{image}: {outcome:#?}");
    }
}

#[test]
fn recipes_that_cannot_be_used() {
    let own = own();
    let (runtime, dir) = &*own;
    for (text, reason) in [
        ("name = ", "not a recipe"),
        ("name = \"x\"\nunknown = 1", "unknown"),
        ("name = \"Upper Case\"", "name"),
        ("name = \"../x\"", "name"),
        ("name = \"core\"", "built-in"),
        ("name = \"x\"\nbase = \"nothing\"", "nothing"),
        ("name = \"x\"\nbase = \"core\"\nimports = [\"no_such_module\"]", "no_such_module"),
        ("name = \"x\"\nbase = \"core\"\ninit = \"1 / 0\"", "ZeroDivisionError"),
        ("name = \"x\"\nbase = \"core\"\nwarm_up = \"x = 1 +\"", "SyntaxError"),
    ] {
        let error = refused(runtime, text);
        assert!(error.contains(reason), "{text}: {error}");
    }
    assert!(!dir.path().join("baking/x").exists(), "workspaces of bakes are left");
    let error = runtime.images().build(Path::new("/nowhere/at/all.toml")).unwrap_err();
    assert!(chain(&error).contains("/nowhere/at/all.toml"));
}

#[test]
fn what_a_recipe_leaves_open_is_closed_or_refused() {
    let own = own();
    let (runtime, _) = &*own;
    let text = |init: &str| {
        format!("name = \"leaky\"\nbase = \"core\"\ninit = '''\nimport builtins, os\n{init}\n'''\n")
    };
    // A file is closed when its last reference is dropped.
    let file = text("builtins.held = open('held.txt', 'w')");
    let built = runtime.images().build(recipe(&file).path());
    built.unwrap_or_else(|e| panic!("{}", chain(&e)));
    let outcome = run_on(runtime, Request::new("print(held.closed)").image("leaky")).outcome;
    assert_eq!(outcome.stdout, "True\n", "{outcome:#?}");
    // An integer that is a descriptor may be stored in other places.
    let number = text("builtins.held = os.open('held.txt', os.O_WRONLY | os.O_CREAT)");
    let error = refused(runtime, &number);
    assert!(error.contains("are still open after its code ran"), "{error}");
}

#[test]
fn the_built_in_images_are_listed_first() {
    for name in ["core", "data", "science"] {
        runtime().images().prepare(name).unwrap();
    }
    let images = runtime().images().list().unwrap();
    let names: Vec<&str> = images.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names[..3], ["core", "data", "science"]);
    for image in &images[..3] {
        assert!(image.built_in && image.path.exists(), "{image:?}");
        let contents = image.contents.as_ref().unwrap();
        assert!(!contents.description.is_empty(), "{contents:?}");
        // It is stored sparsely.
        assert!(image.disk_bytes <= contents.memory_bytes + (1 << 20), "{image:?}");
    }
    assert!(matches!(runtime().images().get("nope"), Err(Error::Image(_))));
    assert!(matches!(runtime().images().remove("nope"), Err(Error::Image(_))));
}

#[test]
fn what_an_image_says_it_imports_is_imported() {
    for name in ["core", "data", "science"] {
        let images = runtime().images();
        images.prepare(name).unwrap();
        let contents = images.get(name).unwrap().contents.unwrap();
        assert!(contents.imports.len() >= 5, "{contents:?}");
        let code = format!(
            "import sys\nprint([m for m in {:?} if m not in sys.modules])",
            contents.imports
        );
        let outcome = run_on(runtime(), Request::new(code).image(name)).outcome;
        assert_eq!(outcome.stdout, "[]\n", "{name}");
    }
}
