//! Target processors of compiled code, and this machine's processor.

use std::fmt;
use std::str::FromStr;

/// Target processors of a bundle's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Processor {
    /// All x86-64 processors with AVX2, BMI, FMA and earlier extensions: servers since 2013 (Intel)
    /// and 2015 (AMD), including AWS Lambda. On aarch64, all processors.
    #[default]
    Common,
    /// All processors with the features of this machine's.
    ThisMachine,
}

impl Processor {
    /// Returns the name on the command line and in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::ThisMachine => "native",
        }
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Processor {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Common, Self::ThisMachine]
            .into_iter()
            .find(|processor| processor.as_str() == name)
            .ok_or_else(|| format!("{name:?} is neither common nor native"))
    }
}

/// Optional x86-64 features that Cranelift can use, by their names in Rust and in Cranelift. The
/// first [`COMMON`] belong to x86-64-v3.
const FEATURES: [(&str, &str); 19] = [
    ("cmpxchg16b", "has_cmpxchg16b"),
    ("sse3", "has_sse3"),
    ("ssse3", "has_ssse3"),
    ("sse4.1", "has_sse41"),
    ("sse4.2", "has_sse42"),
    ("popcnt", "has_popcnt"),
    ("avx", "has_avx"),
    ("avx2", "has_avx2"),
    ("fma", "has_fma"),
    ("bmi1", "has_bmi1"),
    ("bmi2", "has_bmi2"),
    ("lzcnt", "has_lzcnt"),
    ("avxvnni", "has_avx_vnni"),
    ("avx512bitalg", "has_avx512bitalg"),
    ("avx512dq", "has_avx512dq"),
    ("avx512f", "has_avx512f"),
    ("avx512vl", "has_avx512vl"),
    ("avx512vbmi", "has_avx512vbmi"),
    ("avx512vnni", "has_avx512vnni"),
];
const COMMON: usize = 12;

/// Returns this system and architecture, as named in manifests.
pub(crate) fn system() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

/// Returns the features that code for `processor` uses on the architecture `arch`, by their names
/// in Rust and in Cranelift.
pub(crate) fn features(arch: &str, processor: Processor) -> Vec<(&'static str, &'static str)> {
    match (arch, processor) {
        ("x86_64", Processor::Common) => FEATURES[..COMMON].to_vec(),
        // On other architectures, wasmtime checks the features used when it loads the code.
        _ => FEATURES.into_iter().filter(|(name, _)| arch == "x86_64" && has(name)).collect(),
    }
}

/// Whether this processor has a feature; false for unknown features.
#[cfg(target_arch = "x86_64")]
pub(super) fn has(name: &str) -> bool {
    macro_rules! detect {
        ($($feature:tt)*) => {
            match name {
                $($feature => std::arch::is_x86_feature_detected!($feature),)*
                _ => false,
            }
        };
    }
    detect!("cmpxchg16b" "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "avx" "avx2" "fma" "bmi1" "bmi2"
            "lzcnt" "avxvnni" "avx512bitalg" "avx512dq" "avx512f" "avx512vl" "avx512vbmi"
            "avx512vnni")
}

/// Whether this processor has a feature; false for unknown features.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has(_: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_no_feature_that_is_unknown() {
        assert!(!has("telepathy"));
        assert!(!has(""));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_feature_can_be_asked_for() {
        // A feature that `has` does not list would never be detected.
        let source = include_str!("processor.rs");
        let asked = source.split("detect!(\"").nth(1).unwrap().split(')').next().unwrap();
        for (name, _) in FEATURES {
            assert!(asked.contains(&format!("{name}\"")), "{name}");
        }
    }
}
