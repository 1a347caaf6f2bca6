//! The real plotly, if its wheels are available: tests download nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use belljar::{Request, Runtime};

use crate::caches::copy_of_the_shared_one;
use crate::support::{apart, chain, paths, program, run_on, succeeded};

/// The directory with the wheels that `examples/plotly.toml` names, from `BELLJAR_TEST_WHEELS`.
pub fn wheels() -> Option<PathBuf> {
    env::var_os("BELLJAR_TEST_WHEELS").map(PathBuf::from)
}

/// The example builds from its lock file, and figures of plotly are kept as data and as pages. pip
/// uses the wheels in a directory, without network.
pub fn figures_are_kept() {
    let wheels = wheels().expect("BELLJAR_TEST_WHEELS names a directory");
    let mut command = Command::new(env::current_exe().unwrap());
    command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", wheels);
    apart("plotly::figures_are_kept", &mut command, kept);
}

fn kept() {
    let cache = copy_of_the_shared_one();
    let runtime = Runtime::builder().environment().cache(cache.path()).build().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let copy = tempfile::tempdir().unwrap();
    for name in ["plotly.toml", "plotly.lock"] {
        fs::copy(examples.join(name), copy.path().join(name)).unwrap();
    }
    let built = runtime.images().build(&copy.path().join("plotly.toml"));
    built.unwrap_or_else(|e| panic!("{}", chain(&e)));

    let request = Request::new(program("images/plotly_shown")).image("plotly");
    let run = run_on(&runtime, request.timeout(Duration::from_mins(1)));
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
}
