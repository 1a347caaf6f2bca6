//! Bundles: created from the cache, used without one, and rejected if damaged or for another
//! version or machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use belljar::bundle::{BundleOptions, Processor};
use belljar::progress::{Progress, Stage};
use belljar::{Error, Request, Runtime, SessionOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::caches::shared;
use crate::lasting;
use crate::support::{chain, run_on};

const MANIFEST: &str = "belljar-bundle.json";

/// A bundle with `core`, for processors like this one, and the hash of its manifest.
static MADE: LazyLock<(PathBuf, String)> = LazyLock::new(|| {
    let dir = lasting::directory().join("bundle");
    let options = BundleOptions::new(["core"]).processor(Processor::ThisMachine);
    let builder = Runtime::builder().environment().cache(shared());
    let made = builder.make_bundle(&options, &dir).unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert_eq!(made.images, ["core"]);
    (dir, made.hash)
});

fn bundle() -> &'static Path {
    &MADE.0
}

/// A copy of the bundle, by links, for a test that damages it.
fn copy() -> TempDir {
    fn link(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                link(&entry.path(), &target);
            } else {
                fs::hard_link(entry.path(), target).unwrap();
            }
        }
    }
    let dir = tempfile::tempdir_in(bundle().parent().unwrap()).unwrap();
    link(bundle(), dir.path());
    dir
}

/// Changes a file of the copy only.
fn change(path: PathBuf, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::remove_file(&path).unwrap();
    fs::write(path, bytes).unwrap();
}

fn change_manifest(bundle: &Path, change_it: impl FnOnce(&mut Value)) {
    change(bundle.join(MANIFEST), |bytes| {
        let mut manifest = serde_json::from_slice(bytes).unwrap();
        change_it(&mut manifest);
        *bytes = serde_json::to_vec(&manifest).unwrap();
    });
}

/// The error of starting a runtime from a bundle.
#[track_caller]
fn refused(bundle: &Path, hash: Option<&str>) -> Error {
    let mut builder = Runtime::builder().environment().bundle(bundle);
    if let Some(hash) = hash {
        builder = builder.bundle_hash(hash);
    }
    builder.build().err().expect("it is refused")
}

#[track_caller]
fn open(bundle: &Path) -> Runtime {
    Runtime::builder()
        .environment()
        .bundle(bundle)
        .build()
        .unwrap_or_else(|e| panic!("{}", chain(&e)))
}

#[test]
fn a_bundle_runs_what_its_image_runs() {
    let runtime =
        Runtime::builder().environment().bundle(bundle()).bundle_hash(&MADE.1).build().unwrap();
    let outcome =
        run_on(&runtime, Request::new("import wave, json\nprint(json.dumps([1]))")).outcome;
    assert_eq!(outcome.stdout, "[1]\n", "{outcome:#?}");
    let names: Vec<String> =
        runtime.images().list().unwrap().into_iter().map(|image| image.name).collect();
    assert_eq!(names, ["core"]);
}

#[test]
fn a_bundle_has_the_library_that_its_code_can_run_where_images_remember_it() {
    let runtime = open(bundle());
    // Modules from both ends of the archive, also after reading its directory again.
    let code = "
import annotationlib, attr, yaml, zoneinfo
print(zoneinfo.ZoneInfo('Europe/Vienna'), yaml.safe_load('[1]'))
import importlib, pkgutil, sys, zipfile
importlib.invalidate_caches()
import wave, jinja2, xmltodict
print(jinja2.Template('{{ x }}').render(x=2), importlib.util.find_spec('turtle') is not None)
there = {module.name for module in pkgutil.iter_modules()}
print('numpy' in there, 'sympy' in there, 'zipapp' in there)
print(zipfile.ZipFile(sys.path[-1]).testzip())
";
    let request = Request::new(code).timeout(Duration::from_mins(1));
    let outcome = run_on(&runtime, request).outcome;
    let expected = "Europe/Vienna [1]\n2 True\nFalse False True\nNone\n";
    assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    let run = run_on(&runtime, Request::new("import sympy"));
    let error = run.outcome.error.as_deref().unwrap_or_default();
    assert!(error.contains("made without it"), "{:#?}", run.outcome);
    assert_eq!(run.outcome.error_detail.unwrap().hint, None, "it would contradict that");
}

#[test]
#[cfg(unix)]
fn what_is_left_out_takes_no_room() {
    use std::os::unix::fs::MetadataExt;
    let name = Path::new("python315.zip");
    let whole = tempfile::tempdir().unwrap();
    let options = BundleOptions::new(["core"]).processor(Processor::ThisMachine);
    let builder = Runtime::builder().environment().cache(shared());
    let made = builder.make_bundle(&options.whole_library(true), whole.path()).unwrap();
    let blocks = |at: &Path| fs::metadata(at.join(name)).unwrap().blocks() * 512;
    assert!(blocks(bundle()) < 12 << 20, "{} bytes", blocks(bundle()));
    assert!(blocks(bundle()) + (10 << 20) < blocks(whole.path()), "{}", blocks(whole.path()));
    assert!(made.disk_bytes < made.bytes, "{made:?}");
    assert!(!made.left_out.iter().any(|module| module == "sympy"), "{made:?}");
    let runtime = open(whole.path());
    let outcome =
        run_on(&runtime, Request::new("import networkx as nx; print(nx.Graph())")).outcome;
    assert_eq!(outcome.stdout, "Graph with 0 nodes and 0 edges\n", "{outcome:#?}");
}

#[test]
fn a_session_of_the_cache_goes_on_in_a_bundle() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("session.belljar");
    let options = SessionOptions::new().image("core");
    let session = crate::caches::runtime().blocking().session(options).unwrap();
    session.run(Request::new("x = 20")).unwrap();
    session.checkpoint(&file).unwrap();
    let restored = open(bundle()).blocking().restore(file.as_path()).unwrap();
    assert_eq!(restored.run(Request::new("print(x + 1)")).unwrap().stdout, "21\n");
}

#[test]
fn nothing_of_a_bundle_is_changed() {
    let runtime = open(bundle());
    let error = runtime.images().remove("core").unwrap_err();
    assert_eq!(error.code(), "bundle.fixed", "{}", chain(&error));
    let recipe = tempfile::NamedTempFile::new().unwrap();
    fs::write(recipe.path(), "name = \"mine\"\nbase = \"core\"\n").unwrap();
    let error = runtime.images().build(recipe.path()).unwrap_err();
    assert_eq!(error.code(), "bundle.fixed", "{}", chain(&error));
    let to = tempfile::tempdir().unwrap();
    let builder = Runtime::builder().environment().bundle(bundle());
    let error = builder.make_bundle(&BundleOptions::new(["core"]), to.path()).unwrap_err();
    assert_eq!(error.code(), "bundle.fixed", "{}", chain(&error));
    assert!(
        Runtime::builder().environment().bundle(bundle()).images().unwrap().remove("core").is_err()
    );
}

#[test]
fn an_image_that_is_not_in_it_is_named_with_those_that_are() {
    let runtime = open(bundle());
    let asked = runtime.blocking().run(Request::new("1").image("data")).err().unwrap();
    assert_eq!(asked.code(), "image.not_in_bundle");
    assert!(chain(&asked).contains("has no image \"data\"; it has core"), "{}", chain(&asked));
    assert!(asked.hint().unwrap().contains("belljar bundle --image data"));
    // `data` is not in the bundle, so the available images are used.
    let code = "if False:\n    import pandas\nprint(1)";
    let run = run_on(&runtime, Request::new(code));
    assert_eq!(run.outcome.stdout, "1\n", "{:#?}", run.outcome);
    // Its code is that of `core`.
    let run = run_on(&runtime, Request::new("import numpy"));
    let error = run.outcome.error.as_deref().unwrap_or_default();
    assert!(error.contains("needs code of the tier data"), "{:#?}", run.outcome);
}

#[test]
fn a_file_that_is_missing_or_cut_is_named() {
    let gone = copy();
    fs::remove_file(gone.path().join("images/core.image")).unwrap();
    let error = refused(gone.path(), None);
    assert_eq!(error.code(), "bundle.damaged");
    assert!(chain(&error).contains("images/core.image is missing"), "{}", chain(&error));
    assert!(error.hint().unwrap().contains("copy it here again"));

    let cut = copy();
    change(cut.path().join("code.cwasm"), |bytes| bytes.truncate(bytes.len() / 2));
    let error = refused(cut.path(), None);
    assert!(chain(&error).contains("code.cwasm was cut short"), "{}", chain(&error));

    let longer = copy();
    change(longer.path().join("MANIFEST"), |bytes| bytes.push(b'\n'));
    let error = refused(longer.path(), None);
    assert!(chain(&error).contains("MANIFEST is too long"), "{}", chain(&error));
}

#[test]
fn a_manifest_that_lists_no_code_or_no_library_is_refused() {
    for needed in ["code.cwasm", "python315.zip", "mpl-data.files"] {
        let copy = copy();
        change_manifest(copy.path(), |manifest| {
            let files = manifest["files"].as_array_mut().unwrap();
            files.retain(|file| file["path"] != needed);
        });
        let error = refused(copy.path(), None);
        assert_eq!(error.code(), "bundle.damaged");
        let reason = format!("its manifest does not list {needed}");
        assert!(chain(&error).contains(&reason), "{}", chain(&error));
    }
}

#[test]
fn what_was_tampered_with_is_found_where_the_hash_is_demanded() {
    let dir = copy();
    let path = dir.path().join("code.cwasm");
    change(path, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    let error = refused(dir.path(), Some(&MADE.1));
    assert_eq!(error.code(), "bundle.damaged");
    let said = chain(&error);
    assert!(said.contains("code.cwasm is not the one that was written"), "{said}");

    let dir = copy();
    change_manifest(dir.path(), |manifest| manifest["processor"] = json!("other"));
    let error = refused(dir.path(), Some(&MADE.1));
    assert_eq!(error.code(), "bundle.other", "{}", chain(&error));
    assert!(chain(&error).contains(&MADE.1), "{}", chain(&error));
}

#[test]
fn a_bundle_for_something_else_says_for_what() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str, &str); 5] = [
        (|m| m["format"] = json!(1), "bundle.foreign", "it has format 1"),
        (
            |m| m["target"] = json!("s390x-linux"),
            "bundle.foreign",
            "it is for s390x-linux, and this",
        ),
        (|m| m["stamp"] = json!("00"), "bundle.foreign", "made by another build of belljar"),
        (
            |m| m["features"].as_array_mut().unwrap().push(json!("telepathy")),
            "bundle.foreign",
            "this one lacks telepathy",
        ),
        (
            |m| m["files"][0]["path"] = json!("../../etc/passwd"),
            "bundle.damaged",
            "its manifest names \"../../etc/passwd\"",
        ),
    ];
    for (change_it, code, part) in cases {
        let dir = copy();
        change_manifest(dir.path(), change_it);
        let error = refused(dir.path(), None);
        assert_eq!(error.code(), code, "{}", chain(&error));
        assert!(chain(&error).contains(part), "{}", chain(&error));
        assert!(error.hint().is_some(), "{}", chain(&error));
    }
}

#[test]
fn a_bundle_is_made_for_another_system_and_refused_on_this() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);
    impl Progress for Heard {
        fn begin(&self, stage: Stage, subject: &str) {
            self.0.lock().unwrap().push(format!("{} {subject}", stage.describe()));
        }
        fn end(&self, _: Stage) {}
    }
    let heard = Arc::new(Heard::default());
    let place = tempfile::tempdir().unwrap();
    let builder =
        Runtime::builder().environment().cache(shared()).progress(Arc::clone(&heard) as Arc<_>);
    let options = BundleOptions::new(["core"]).target("x86_64-windows");
    let made =
        builder.make_bundle(&options, place.path()).unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert_eq!((made.target.as_str(), made.processor.as_str()), ("x86_64-windows", "common"));
    let heard = heard.0.lock().unwrap().join("\n");
    assert!(heard.contains("for a bundle core x86_64-windows"), "{heard}");
    // The table with which Windows finds a function's frame.
    let code = fs::read(made.path.join("code.cwasm")).unwrap();
    assert!(code.windows(7).any(|name| name == b".pdata\0"));
    let error = refused(&made.path, None);
    assert_eq!(error.code(), "bundle.foreign");
    assert!(chain(&error).contains("it is for x86_64-windows"), "{}", chain(&error));
}

#[test]
fn code_of_another_wasmtime_is_refused() {
    let dir = copy();
    let size = fs::metadata(bundle().join("code.cwasm")).unwrap().len();
    let path = dir.path().join("code.cwasm");
    fs::remove_file(&path).unwrap();
    fs::File::create(path).unwrap().set_len(size).unwrap();
    let error = refused(dir.path(), None);
    assert_eq!(error.code(), "bundle.foreign", "{}", chain(&error));
    assert!(error.hint().unwrap().contains("make it again"), "{:?}", error.hint());
}

#[test]
fn what_is_no_bundle_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let error = refused(place.path(), None);
    assert!(chain(&error).contains("it has no belljar-bundle.json"), "{}", chain(&error));

    let error = refused(&place.path().join("nothing"), None);
    assert_eq!(error.code(), "bundle.io");
    assert!(error.hint().unwrap().contains("BELLJAR_BUNDLE"), "{:?}", error.hint());

    let file = place.path().join("core.tar.zst");
    fs::write(&file, "").unwrap();
    let error = refused(&file, None);
    assert!(error.hint().unwrap().contains("tar --zstd -xf"), "{:?}", error.hint());

    for content in ["", "[]", "{\"format\": 3}", "{\"format\": \"1\"}"] {
        fs::write(place.path().join(MANIFEST), content).unwrap();
        let error = refused(place.path(), None);
        assert!(chain(&error).contains("its manifest cannot be read"), "{}", chain(&error));
    }
    fs::write(place.path().join(MANIFEST), vec![b' '; 5 << 20]).unwrap();
    assert!(chain(&refused(place.path(), None)).contains("its manifest is too long"));
}

#[test]
fn a_bundle_is_made_for_what_can_be_compiled_and_where_nothing_is() {
    let make = |options: BundleOptions, to: &Path| {
        Runtime::builder().environment().cache(shared()).make_bundle(&options, to).unwrap_err()
    };
    let place = tempfile::tempdir().unwrap();
    let core = || BundleOptions::new(["core"]);
    let error = make(core().target("pdp11-unix"), place.path());
    assert_eq!(error.code(), "bundle.target", "{}", chain(&error));
    for target in ["aarch64-linux", "x86_64-windows"] {
        let native = core().target(target).processor(Processor::ThisMachine);
        assert_eq!(make(native, place.path()).code(), "bundle.target");
    }
    let error = make(BundleOptions::new(["nonsense"]), place.path());
    assert_eq!(error.code(), "image.unknown", "{}", chain(&error));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    fs::write(place.path().join("mine"), "").unwrap();
    let error = make(core(), place.path());
    assert!(error.hint().unwrap().contains("not there yet"), "{}", chain(&error));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}
