//! The cache shared by all tests, and copies of it to damage. Also included by the command's tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use belljar::Runtime;
use belljar::setup::Tier;

/// The runtime shared by tests, on the default cache: code and images are made once.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = Runtime::builder().environment().build().expect("the engine starts");
        // With `BELLJAR_BUNDLE`, as on a machine that cannot compile, only the bundle's contents
        // are available.
        if cfg!(feature = "compile") {
            runtime.compile(Tier::All).expect("Python is compiled");
        }
        runtime
    })
}

/// The cache directory of the shared runtime.
pub fn shared() -> PathBuf {
    runtime().images().prepare("core").unwrap();
    let core = runtime().images().get("core").unwrap().path;
    core.parent().unwrap().parent().unwrap().to_owned()
}

/// A copy of the shared cache, for a test that damages it.
pub fn copy_of_the_shared_one() -> tempfile::TempDir {
    runtime().images().prepare("data").unwrap();
    let dir = tempfile::tempdir().unwrap();
    copy(&shared(), dir.path());
    dir
}

/// Copies a directory with its contents, without links and without the compiler of packages, which
/// is large.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && entry.file_name() != "compiler" {
            copy(&entry.path(), &target);
        } else if kind.is_file()
            && let Err(error) = fs::copy(entry.path(), target)
        {
            // Another test may have renamed a temporary file meanwhile.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
    }
}
