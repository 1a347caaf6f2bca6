//! Directories shared by the tests of one process, which are never dropped. Also included by the
//! command's tests.

use std::fs;
use std::path::{Path, PathBuf};

const PREFIX: &str = "shared-in-process-";

/// An empty directory that lasts as long as this process; those of ended processes are removed.
pub fn directory() -> PathBuf {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let own = parent.join(format!("{PREFIX}{}", std::process::id()));
    let _ = fs::remove_dir_all(&own);
    fs::create_dir(&own).unwrap();
    // Other systems do not tell which processes exist.
    if Path::new("/proc/self").exists() {
        for entry in fs::read_dir(parent).unwrap().flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // Another process may be removing it as well.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
    own
}
