//! The built-in images with packages, if their wheels are available: programs with everyday uses
//! print what they print on the host's Python with the same packages.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use belljar::{Request, Runtime};

use crate::caches::copy_of_the_shared_one;
use crate::plotly::wheels;
use crate::support::{apart, chain, program, run_on, succeeded};

const IMAGES: [&str; 5] = ["office", "text", "charts", "web", "test"];

/// The host's Python with these packages, from `BELLJAR_PACKAGES_PYTHON`.
pub fn host() -> Option<PathBuf> {
    env::var_os("BELLJAR_PACKAGES_PYTHON").map(PathBuf::from)
}

/// pip uses the wheels in a directory, without network.
pub fn agree_with_the_host() {
    let wheels = wheels().expect("BELLJAR_TEST_WHEELS names a directory");
    let mut command = Command::new(env::current_exe().unwrap());
    command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", wheels);
    apart("packages::agree_with_the_host", &mut command, agree);
}

fn agree() {
    let cache = copy_of_the_shared_one();
    let runtime = Runtime::builder().environment().cache(cache.path()).build().unwrap();
    let missing = run_on(&runtime, Request::new("import docx")).outcome;
    let hint = missing.error_detail.unwrap().hint.unwrap();
    assert!(hint.contains("`docx` is in the image `office`"), "{hint}");
    for image in IMAGES {
        runtime.images().prepare(image).unwrap_or_else(|e| panic!("{}", chain(&e)));
        let code = program(&format!("images/{image}"));
        // Its imports choose the image.
        let outcome = run_on(&runtime, Request::new(&code).timeout(Duration::from_mins(1))).outcome;
        succeeded(&outcome);
        assert_eq!(outcome.stdout, on_the_host(&code), "{image}");
        for file in &outcome.files {
            assert_eq!(file.problem, None, "{}", file.path);
        }
    }
    let names: Vec<String> = Runtime::builder()
        .environment()
        .cache(cache.path())
        .licenses()
        .unwrap()
        .into_iter()
        .map(|l| l.package)
        .collect();
    for package in ["python-docx", "httpx", "nltk", "altair"] {
        assert!(names.iter().any(|name| name == package), "{package} has no license");
    }
}

fn on_the_host(code: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("program.py"), code).unwrap();
    let mut command = Command::new(host().expect("BELLJAR_PACKAGES_PYTHON names a Python"));
    command.arg("program.py").current_dir(folder.path()).env("PYTHONIOENCODING", "utf-8");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
