//! Parses untrusted JSON in checkpoints. A value of two bytes of text takes many times as much
//! memory, so values are counted before they are parsed.

use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::sandbox::calls::Weight;

/// Maximum memory of a parsed value, in bytes: a `serde_json::Value` in a growing list.
pub(super) const VALUE_BYTES: u64 = 128;
/// Maximum number of values in a manifest. A chunk takes three, and the largest manifest lists
/// fewer than 900,000 chunks.
const MAX_MANIFEST_VALUES: u64 = 4_000_000;

/// Parses a manifest.
pub(super) fn manifest<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    if values(text) > MAX_MANIFEST_VALUES {
        return Err(Problem::Format("its manifest has too many values"));
    }
    serde_json::from_slice(text).map_err(|_| Problem::Format("its manifest is not valid"))
}

/// Returns an upper bound for the number of values in a text, including keys.
pub(super) fn values(text: &[u8]) -> u64 {
    Weight::of_text(text).values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the check, this would parse 16 million values, which take a gigabyte.
    #[test]
    fn a_manifest_of_many_values_is_not_parsed() {
        let text = format!("[{}[]]", "[],".repeat(16 << 20));
        let problem = manifest::<serde::de::IgnoredAny>(text.as_bytes()).err();
        let Some(Problem::Format(reason)) = problem else {
            panic!("it was parsed");
        };
        assert_eq!(reason, "its manifest has too many values");
    }
}
