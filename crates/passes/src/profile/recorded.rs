//! The recorded profile, as text.
//!
//! ```text
//! tier NAME                           of the functions that follow
//! function HASH ENTRIES NAME
//! OPERATOR WEIGHT                     a direct call
//! OPERATOR WEIGHT SLOT NAME           an indirect call that reached this slot
//! ```
//!
//! A function is in this tier and all larger ones. Operators are counted from zero in each
//! function. Weights and entries are parts of [`ALL_CALLS`], the mean of the programs' calls.

use std::fmt::Write as _;

use super::ProfileError;
use crate::tier::Tier;

/// Weight of all calls of a program together.
pub(super) const ALL_CALLS: f64 = 1e7;

#[derive(Default)]
pub(super) struct Recorded {
    pub functions: Vec<Function>,
}

pub(super) struct Function {
    /// Smallest tier that contains the function.
    pub tier: Tier,
    pub identity: u64,
    /// Weight of all calls of the function.
    pub entries: u32,
    pub name: String,
    pub sites: Vec<Site>,
}

pub(super) struct Site {
    pub operator: u32,
    pub weight: u32,
    /// For an indirect call, the slot that it reached and the name of its function.
    pub slot: Option<(u32, String)>,
}

impl Recorded {
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let mut recorded = Self::default();
        let mut tier = Tier::Core;
        for (at, line) in text.lines().enumerate() {
            if !line.starts_with('#') {
                recorded.line(line, &mut tier).ok_or(ProfileError::Line { line: at + 1 })?;
            }
        }
        Ok(recorded)
    }

    fn line(&mut self, line: &str, tier: &mut Tier) -> Option<()> {
        if let Some(name) = line.strip_prefix("tier ") {
            *tier = Tier::EVERY.into_iter().find(|tier| tier.name() == name)?;
        } else if let Some(rest) = line.strip_prefix("function ") {
            let mut words = rest.splitn(3, ' ');
            self.functions.push(Function {
                tier: *tier,
                identity: u64::from_str_radix(words.next()?, 16).ok()?,
                entries: words.next()?.parse().ok()?,
                name: words.next()?.to_owned(),
                sites: Vec::new(),
            });
        } else {
            let mut words = line.splitn(4, ' ');
            let operator = words.next()?.parse().ok()?;
            let weight = words.next()?.parse().ok()?;
            let slot = match words.next() {
                Some(slot) => Some((slot.parse().ok()?, words.next()?.to_owned())),
                None => None,
            };
            self.functions.last_mut()?.sites.push(Site {
                operator,
                weight,
                slot,
            });
        }
        Some(())
    }

    /// Writes functions that are sorted by tier.
    pub fn write(&self) -> String {
        let mut text = String::from(
            "# Frequent calls of the Python module, written by `benches/profile`.\n\
             # The format is described in crates/passes/src/profile/recorded.rs.\n",
        );
        let mut last = None;
        for function in &self.functions {
            let Function {
                tier,
                identity,
                entries,
                name,
                ..
            } = function;
            // Writing to a string does not fail.
            if last.replace(*tier) != Some(*tier) {
                let _ = writeln!(text, "tier {tier}");
            }
            let _ = writeln!(text, "function {identity:016x} {entries} {name}");
            for site in &function.sites {
                let _ = write!(text, "{} {}", site.operator, site.weight);
                if let Some((slot, name)) = &site.slot {
                    let _ = write!(text, " {slot} {name}");
                }
                text.push('\n');
            }
        }
        text
    }
}
