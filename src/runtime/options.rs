//! Settings of a runtime as one JSON object, for bindings of other languages.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::RuntimeBuilder;

/// Settings of a runtime in JSON. Omitted settings have their defaults.
///
/// ```
/// use belljar::Runtime;
/// use belljar::setup::RuntimeOptions;
///
/// let options: RuntimeOptions = serde_json::from_str(r#"{"concurrency": 2, "queue": 10}"#)?;
/// let builder = Runtime::builder().options(options);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// Directory for artifact, code and images. Default: `belljar` in the platform's
    /// cache directory.
    pub cache: Option<PathBuf>,
    /// Python wheel to use instead of downloading it.
    pub wheel: Option<PathBuf>,
    /// Bundle to run from, instead of a cache.
    pub bundle: Option<PathBuf>,
    /// Required SHA-256 of the bundle's manifest.
    pub bundle_hash: Option<String>,
    /// Directory for files that do not fit into memory. Default: the system's directory for
    /// temporary files.
    pub temp_dir: Option<PathBuf>,
    /// Memory for sandboxes' files, in bytes. Default 256 MiB.
    pub file_memory: Option<u64>,
    /// Number of concurrent runs. Default: four per core.
    pub concurrency: Option<usize>,
    /// Number of runs that may wait. Default 1,024.
    pub queue: Option<usize>,
    /// Step of the sandboxes' clocks, in nanoseconds. Default: that of the system.
    pub clock_resolution: Option<u64>,
}

impl RuntimeBuilder {
    /// Applies these settings, each like the method of the same name.
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
        if let Some(ns) = options.clock_resolution {
            self = self.clock_resolution(Duration::from_nanos(ns));
        }
        self
    }
}
