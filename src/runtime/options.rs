//! What a runtime is made with, as one object in JSON: the form in which it crosses from other languages.

use std::path::PathBuf;

use serde::Deserialize;

use super::RuntimeBuilder;

/// Settings of a runtime, as JSON has them: what is left out has its default.
///
/// ```
/// use belljar::{Runtime, RuntimeOptions};
///
/// let options: RuntimeOptions = serde_json::from_str(r#"{"concurrency": 2, "queue": 10}"#)?;
/// let builder = Runtime::builder().options(options);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// Where artifact, code and images are kept. Default: `BELLJAR_CACHE`, or the platform's place.
    pub cache: Option<PathBuf>,
    /// The Python wheel, instead of downloading it.
    pub wheel: Option<PathBuf>,
    /// A bundle to run from, instead of a cache.
    pub bundle: Option<PathBuf>,
    /// The SHA-256 that the bundle's manifest must have.
    pub bundle_hash: Option<String>,
    /// Where files go that memory has no room for. Default: the system's directory for temporary files.
    pub temp_dir: Option<PathBuf>,
    /// Bytes of sandboxes' files that are kept in memory. Default 256 MiB.
    pub file_memory: Option<u64>,
    /// Runs at once. Default: four for each core.
    pub concurrency: Option<usize>,
    /// Runs that may wait. Default 1,024.
    pub queue: Option<usize>,
}

impl RuntimeBuilder {
    /// Sets what these say, each as the method of its name does.
    #[must_use]
    pub fn options(mut self, options: RuntimeOptions) -> Self {
        if let Some(dir) = options.cache {
            self = self.cache(dir);
        }
        if let Some(file) = options.wheel {
            self = self.wheel(file);
        }
        if let Some(dir) = options.bundle {
            self = self.bundle(dir);
        }
        if let Some(hash) = options.bundle_hash {
            self = self.bundle_hash(hash);
        }
        if let Some(dir) = options.temp_dir {
            self = self.temp_dir(dir);
        }
        if let Some(bytes) = options.file_memory {
            self = self.file_memory(bytes);
        }
        if let Some(runs) = options.concurrency {
            self = self.concurrency(runs);
        }
        if let Some(runs) = options.queue {
            self = self.queue(runs);
        }
        self
    }
}
