//! Counts calls. `benches/profile` uses it to write the profile, from programs that are not held
//! out.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_passes::{Tier, before_profile, gather_calls};

use crate::api::outcome::ErrorKind;
use crate::api::request::Request;
use crate::image::tier_for;
use crate::runtime::Runtime;
use crate::sandbox::counted_calls::counted;

const PROFILE: &str = "crates/passes/src/profile/calls.txt";

/// Environment variable that asks for the profile. Otherwise one program is counted, and nothing is
/// written.
const WRITE: &str = "BELLJAR_WRITE_PROFILE";

/// The tier whose calls are counted. The libraries of larger tiers work in loops more than in
/// calls, and every tier has the functions of this one, so that the same calls change.
const COUNTED: Tier = Tier::Core;

/// Longer programs are counted up to here.
const FUEL: u64 = 150_000_000;

/// Directories of programs. Of the tests, those that do not fail count.
const PROGRAMS: [&str; 4] = [
    "benches/corpus/trained",
    "benches/programs",
    "tests/programs/library",
    "tests/programs/contract",
];

#[test]
fn calls_are_counted() {
    let writes = std::env::var_os(WRITE).is_some();
    let mut paths: Vec<_> = PROGRAMS.into_iter().flat_map(python_files).collect();
    if !writes {
        paths.retain(|path| path.ends_with("benches/programs/fibonacci.py"));
    }
    let builder = Runtime::builder().environment();
    let module = fs::read(builder.artifact_module().unwrap()).unwrap();
    let modules = Tier::EVERY.map(|tier| before_profile(module.clone(), tier).unwrap());
    let runtime = builder.counting_calls().build().unwrap();
    runtime.compile(COUNTED).unwrap();
    let mut programs = Vec::new();
    for path in paths {
        let code = fs::read_to_string(&path).unwrap();
        if tier_for(&code, &[]) > COUNTED {
            continue;
        }
        let request = Request::new(code).memory_mib(1024).fuel(FUEL);
        let request = request.timeout(Duration::from_mins(10));
        let name = path.strip_prefix(root()).unwrap();
        let mut run = None;
        let counts = counted(|| run = Some(runtime.blocking().run(request)));
        // Larger tiers have other numbers of calls, and are not compiled.
        let Ok(run) = run.unwrap() else {
            println!("not counted: {} needs more code", name.display());
            continue;
        };
        let outcome = run.outcome;
        let ended = outcome.success
            || outcome.error_detail.as_ref().is_some_and(|error| error.kind == ErrorKind::Fuel);
        println!("{} calls, ended: {ended}, {}", counts.total(), name.display());
        assert!(ended || name.starts_with("tests"), "{}: {:#?}", name.display(), outcome.error);
        if ended {
            programs.push(counts);
        }
    }
    let [core, data, all] = &modules;
    let profile = gather_calls([core, data, all], &programs).unwrap();
    println!("{} programs, {} bytes", programs.len(), profile.len());
    if writes {
        fs::write(root().join(PROFILE), profile).unwrap();
    } else {
        assert!(profile.contains(" _PyEval_EvalFrameDefault\n"), "{profile}");
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn python_files(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(directory)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "py"));
    paths.sort();
    paths
}
