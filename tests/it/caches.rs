//! The cache that all tests share, and copies of it to spoil. The command's tests include this file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use belljar::Runtime;
use belljar::setup::Tier;

/// The runtime that tests share, on the default cache: code and images are made once.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = Runtime::builder().environment().build().expect("the engine starts");
        // Where `BELLJAR_BUNDLE` names a bundle, as on a machine that cannot compile, there is what it has.
        if cfg!(feature = "compile") {
            runtime.compile(Tier::All).expect("Python is compiled");
        }
        runtime
    })
}

/// Where the shared runtime keeps its files.
pub fn shared() -> PathBuf {
    runtime().images().prepare("core").unwrap();
    let core = runtime().images().get("core").unwrap().path;
    core.parent().unwrap().parent().unwrap().to_owned()
}

/// A cache like the shared one, for a test that spoils it.
pub fn copy_of_the_shared_one() -> tempfile::TempDir {
    runtime().images().prepare("data").unwrap();
    let dir = tempfile::tempdir().unwrap();
    copy(&shared(), dir.path());
    dir
}

/// Copies a directory with everything in it.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if let Err(error) = fs::copy(entry.path(), target) {
            // Another test may just have given a file that was being written its name.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
    }
}
