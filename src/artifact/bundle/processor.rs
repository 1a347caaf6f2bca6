//! Processors: those that code is compiled for, and this one.

use std::fmt;
use std::str::FromStr;

/// The processors that the code of a bundle is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Processor {
    /// All that have AVX2, BMI, FMA and what came before them: servers since 2013 (Intel) and 2015
    /// (AMD), and what AWS Lambda has. On aarch64, every one.
    #[default]
    Common,
    /// All that have what this machine's has.
    ThisMachine,
}

impl Processor {
    /// As it is named on the command line and in a manifest.
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

/// The features of an x86-64 processor that Cranelift uses where it may, by their names in Rust and
/// in Cranelift. The first [`COMMON`] are those of x86-64-v3.
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

/// This system and architecture, as manifests name them.
pub(crate) fn system() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

/// The features that code for `processor` uses, for the architecture `arch`, by their names in Rust
/// and in Cranelift.
pub(crate) fn features(arch: &str, processor: Processor) -> Vec<(&'static str, &'static str)> {
    match (arch, processor) {
        ("x86_64", Processor::Common) => FEATURES[..COMMON].to_vec(),
        // Elsewhere wasmtime compares what the code uses with this machine when it loads it.
        _ => FEATURES.into_iter().filter(|(name, _)| arch == "x86_64" && has(name)).collect(),
    }
}

/// Whether this processor has a feature. It has none that this program does not know.
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

/// Whether this processor has a feature. It has none that this program does not know.
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
        // One that `has` does not list would never be found, whatever the processor.
        let source = include_str!("processor.rs");
        let asked = source.split("detect!(\"").nth(1).unwrap().split(')').next().unwrap();
        for (name, _) in FEATURES {
            assert!(asked.contains(&format!("{name}\"")), "{name}");
        }
    }
}
