//! Images of one's own, and the built-in ones as they are listed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use belljar::{Error, Request, Runtime};

use crate::support::{chain, paths, program, run_on, runtime, succeeded};

/// A runtime on a cache of its own for the images of these tests, with code and built-in images
/// taken from the shared one. Tests that run at the same time share it; the last removes it.
fn own() -> Arc<(Runtime, tempfile::TempDir)> {
    static OWN: Mutex<Weak<(Runtime, tempfile::TempDir)>> = Mutex::new(Weak::new());
    let mut shared = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let dir = crate::caches::copy_of_the_shared_one();
        let own = Arc::new((Runtime::builder().cache(dir.path()).build().unwrap(), dir));
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

#[test]
fn plotly_is_added_as_a_package() {
    let own = own();
    let (runtime, dir) = &*own;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plotly.toml");
    let copy = tempfile::tempdir().unwrap();
    let recipe = copy.path().join("plotly.toml");
    fs::copy(path, &recipe).unwrap();
    let info = runtime.images().build(&recipe).unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert!(!info.built_in, "{info:?}");
    let contents = info.contents.unwrap();
    assert!(contents.memory_bytes > 0, "{contents:?}");
    assert_eq!(contents.base.as_deref(), Some("data"));
    assert!(contents.packages.iter().any(|p| p.starts_with("plotly==")), "{contents:?}");

    let request = Request::new(program("images/plotly_shown")).image("plotly");
    let run = run_on(runtime, request);
    succeeded(&run.outcome);
    assert_eq!(run.outcome.result, "scatter");
    let made = paths(&run.outcome);
    assert!(made.contains(&"own.html"), "{made:?}");
    let of_kind = |kind: &str| -> Vec<&str> {
        let is_kind = |path: &&str| Path::new(path).extension() == Some(kind.as_ref());
        made.iter().copied().filter(is_kind).collect()
    };
    let (data, pages) = (of_kind("json"), of_kind("html"));
    assert_eq!((data.len(), pages.len()), (2, 3), "{made:?}");
    let figure: serde_json::Value = serde_json::from_slice(&run.read(data[0]).unwrap()).unwrap();
    assert_eq!(figure["data"][0]["type"], "bar");

    // What is mounted for it cannot be changed by a run.
    let spoil = "import plotly, os\nopen(os.path.join(os.path.dirname(plotly.__file__), 'x'), 'w')";
    let outcome = run_on(runtime, Request::new(spoil).image("plotly")).outcome;
    assert!(!outcome.success, "{outcome:#?}");

    // It is pinned: the lock file beside the recipe names every file by its hash.
    let lock = fs::read_dir(copy.path()).unwrap().map(|e| e.unwrap().path());
    let lock = lock.into_iter().find(|p| p != &recipe).expect("a lock file");
    let text = fs::read_to_string(lock).unwrap();
    assert!(text.contains("plotly") && text.contains("sha256"), "{text}");

    let wheels: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| line.strip_prefix("sha256 = \"")?.strip_suffix('"'))
        .map(|hash| dir.path().join("wheels").join(hash))
        .collect();
    assert!(wheels.len() == 2 && wheels.iter().all(|wheel| wheel.exists()), "{wheels:?}");
    runtime.images().remove("plotly").unwrap();
    assert!(!wheels.iter().any(|wheel| wheel.exists()), "{wheels:?}");
    assert!(runtime.images().get("plotly").is_err());
    assert!(runtime.blocking().run(Request::new("1").image("plotly")).is_err());
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

    // It is there for the next process, too.
    let second = Runtime::builder().cache(dir.path()).build().unwrap();
    assert_eq!(run_on(&second, request).outcome.stdout, "5 False []\n");
    assert_eq!(second.images().get("mine").unwrap().path, info.path);

    // Building it again takes the new recipe.
    runtime.images().build(recipe(&text.replace("= 5", "= 6")).path()).unwrap();
    let outcome = run_on(runtime, Request::new(code).image("mine")).outcome;
    assert_eq!(outcome.stdout, "6 False []\n");
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
fn a_recipe_that_leaves_a_file_open_is_refused_or_healed() {
    let text = "name = \"leaky\"\nbase = \"core\"\ninit = '''\nimport builtins\n\
                builtins.held = open('held.txt', 'w')\n'''\n";
    let own = own();
    let (runtime, _) = &*own;
    if let Err(error) = runtime.images().build(recipe(text).path()) {
        assert!(chain(&error).contains("open"), "{}", chain(&error));
        return;
    }
    let outcome = run_on(runtime, Request::new("print(held.closed)").image("leaky")).outcome;
    assert_eq!(outcome.stdout, "True\n", "{outcome:#?}");
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
        // It is stored without its holes.
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
