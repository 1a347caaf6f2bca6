//! The profile of one module, by function index, and the limits on what is rewritten.

use std::collections::{HashMap, HashSet};

use wasmparser::Operator;

use super::ProfileError;
use super::identity::identity;
use super::input::Input;
use super::recorded::{ALL_CALLS, Recorded};
use crate::PassError;
use crate::tier::Tier;

/// Limits on what is rewritten. Frequencies are parts of all calls.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The smallest frequency of a slot that an indirect call compares with.
    pub promoted: f64,
    /// The smallest part of the remaining calls that reaches such a slot.
    pub share: f64,
    /// The smallest frequency of a call that is replaced by a body, and the largest body in bytes.
    pub inlined: (f64, usize),
    /// The same for frequent calls.
    pub frequent: (f64, usize),
    /// Maximum depth of bodies in bodies.
    pub depth: usize,
    /// Maximum number of locals of a function with inlined bodies.
    pub locals: usize,
    /// Bytes of a function's code beyond which nothing more is inlined into it.
    pub code: usize,
}

impl Limits {
    pub const DEFAULT: Self = Self {
        promoted: 2e-5,
        share: 0.3,
        inlined: (2e-5, 80),
        frequent: (3e-4, 400),
        depth: 4,
        locals: 4_000,
        code: 2 << 20,
    };
}

/// Frequencies of a module's calls.
#[derive(Default)]
pub(super) struct Plan {
    functions: HashMap<u32, Function>,
}

#[derive(Clone, Default)]
struct Function {
    /// Frequency of all calls of the function.
    entries: f64,
    /// By operator: the frequencies of the functions that are called, highest first. Indirect calls
    /// have the slot.
    sites: HashMap<u32, Vec<Reached>>,
}

/// A function that a call reached.
#[derive(Clone, Copy)]
pub(super) struct Reached {
    pub slot: Option<u32>,
    pub frequency: f64,
}

impl Plan {
    /// Finds the functions of the profile in the module of `tier`.
    pub fn of(input: &Input<'_>, recorded: &Recorded, tier: Tier) -> Result<Self, PassError> {
        let stale = |what: String| PassError::Profile(ProfileError::Stale { what });
        let held = || recorded.functions.iter().filter(|function| function.tier <= tier);
        let names: HashSet<&str> = held().map(|function| function.name.as_str()).collect();
        let mut found: HashMap<_, Vec<u32>> = HashMap::new();
        for index in input.defined().filter(|&index| names.contains(input.name(index))) {
            found.entry((input.name(index), identity(input, index)?)).or_default().push(index);
        }
        let mut plan = Self::default();
        for function in held() {
            let name = function.name.as_str();
            let Some(indices) = found.get(&(name, function.identity)) else {
                return Err(stale(format!("its function `{name}` differs")));
            };
            let mut planned = Function {
                entries: f64::from(function.entries) / ALL_CALLS,
                ..Function::default()
            };
            for site in &function.sites {
                let slot = site.slot.as_ref().map(|(slot, name)| {
                    let is_same = input.slots.get(slot).is_some_and(|&at| input.name(at) == name);
                    is_same
                        .then_some(*slot)
                        .ok_or_else(|| stale(format!("its slot {slot} differs")))
                });
                planned.sites.entry(site.operator).or_default().push(Reached {
                    slot: slot.transpose()?,
                    frequency: f64::from(site.weight) / ALL_CALLS,
                });
            }
            for &index in indices {
                plan.functions.insert(index, planned.clone());
            }
        }
        Ok(plan)
    }

    /// Invents a profile: `draw` returns a slot, for indirect calls, and a frequency.
    pub fn at_random(
        input: &Input<'_>,
        mut draw: impl FnMut() -> Option<(u32, f64)>,
    ) -> Result<Self, PassError> {
        let mut plan = Self::default();
        for index in input.defined() {
            let mut function = Function {
                entries: 1.0,
                ..Function::default()
            };
            for (at, operator) in input.operators(index)?.enumerate() {
                let is_indirect = match operator?.0 {
                    Operator::Call { .. } => false,
                    Operator::CallIndirect { .. } => true,
                    _ => continue,
                };
                let reached = function.sites.entry(at as u32).or_default();
                while let Some((slot, frequency)) = draw() {
                    let slot = is_indirect.then_some(slot);
                    reached.push(Reached { slot, frequency });
                }
            }
            plan.functions.insert(index, function);
        }
        Ok(plan)
    }

    /// Whether a function has calls that may be rewritten.
    pub fn has(&self, function: u32) -> bool {
        self.functions.get(&function).is_some_and(|function| !function.sites.is_empty())
    }

    /// Returns the frequency of a function's calls.
    pub fn entries(&self, function: u32) -> f64 {
        self.functions.get(&function).map_or(0.0, |function| function.entries)
    }

    /// Returns what a call reached, most frequent first.
    pub fn reached(&self, function: u32, operator: u32) -> &[Reached] {
        let function = self.functions.get(&function);
        function.and_then(|function| function.sites.get(&operator)).map_or(&[], Vec::as_slice)
    }
}
