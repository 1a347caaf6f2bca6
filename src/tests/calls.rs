//! Counts calls. `benches/profile` uses it to write the profile, from programs that are not held
//! out.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_passes::{Profile, Tier, before_profile};

use crate::api::outcome::ErrorKind;
use crate::api::request::Request;
use crate::runtime::Runtime;
use crate::sandbox::counted_calls::counted;

const PROFILE: &str = "crates/passes/src/profile/calls.txt";

/// Environment variable that asks for the profile. Otherwise one program is counted, and nothing is
/// written.
const WRITE: &str = "BELLJAR_WRITE_PROFILE";

/// Longer programs are counted up to here.
const FUEL: u64 = 1_500_000_000;

/// Directories of programs.
const PROGRAMS: [&str; 2] = ["benches/corpus/trained", "benches/programs"];

/// Imports of the images, which are baked before anything is counted.
const IMAGES: [&str; 3] = ["pass", "import pandas", "import scipy"];

#[test]
fn calls_are_counted() {
    let writes = std::env::var_os(WRITE).is_some();
    let mut paths: Vec<_> = PROGRAMS.into_iter().flat_map(python_files).collect();
    let mut images = IMAGES.to_vec();
    // The largest tier has the functions of all.
    let mut counted_tier = Tier::All;
    if !writes {
        paths.retain(|path| path.ends_with("benches/programs/fibonacci.py"));
        images.truncate(1);
        counted_tier = Tier::Core;
    }
    let builder = Runtime::builder().environment();
    let module = fs::read(builder.artifact_module().unwrap()).unwrap();
    let runtime = builder.counting_calls().build().unwrap();
    runtime.compile(counted_tier).unwrap();
    let run = |code: String| {
        let request = Request::new(code).memory_mib(1024).fuel(FUEL);
        runtime.blocking().run(request.timeout(Duration::from_mins(10))).unwrap().outcome
    };
    for image in images {
        let outcome = run(image.to_owned());
        assert!(outcome.success, "{image}: {:#?}", outcome.error);
    }
    let mut profile = Profile::default();
    for path in &paths {
        let code = fs::read_to_string(path).unwrap();
        let mut outcome = None;
        let counts = counted(|| outcome = Some(run(code)));
        let outcome = outcome.unwrap();
        let ended = outcome.success
            || outcome.error_detail.as_ref().is_some_and(|error| error.kind == ErrorKind::Fuel);
        let name = path.strip_prefix(root()).unwrap().display();
        println!("{} calls, {} fuel, {name}", counts.total(), outcome.usage.fuel);
        assert!(ended, "{name}: {:#?}", outcome.error);
        profile.add(&counts);
    }
    let modules = Tier::EVERY.map(|tier| before_profile(module.clone(), tier).unwrap());
    let profile = profile.write(modules.each_ref().map(Vec::as_slice), counted_tier).unwrap();
    println!("{} programs, {} bytes", paths.len(), profile.len());
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
