//! Makes the profile of counted calls.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::counting::{NO_SLOT, sites};
use super::identity::identity;
use super::input::Input;
use super::recorded::{ALL_CALLS, Function, Recorded, Site};
use crate::PassError;

/// Calls that are rarer than this part of a program's calls, on average, are not recorded.
const LEAST: f64 = 4e-6;
/// Maximum number of slots that are recorded for an indirect call.
const SLOTS: usize = 3;

/// The calls of one program.
#[derive(Default)]
pub struct CallCounts {
    /// By number: the slots that were reached, or [`NO_SLOT`], and how often.
    sites: Vec<Vec<(u32, u64)>>,
}

impl CallCounts {
    /// Counts a call, given as to [`COUNT`](super::COUNT).
    pub fn add(&mut self, site: u32, slot: u32) {
        let site = site as usize;
        if site >= self.sites.len() {
            self.sites.resize_with(site + 1, Vec::new);
        }
        let reached = &mut self.sites[site];
        match reached.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, count)) => *count += 1,
            None => reached.push((slot, 1)),
        }
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }

    /// Iterates over the counted calls, each with its slot or [`NO_SLOT`].
    fn iter(&self) -> impl Iterator<Item = ((u32, u32), u64)> {
        (0..).zip(&self.sites).flat_map(|(site, reached)| {
            reached.iter().map(move |&(slot, count)| ((site, slot), count))
        })
    }
}

/// Returns the recorded profile. `modules` are the pass's inputs for all tiers, smallest first; the
/// calls of the first were counted. Each program has the same weight.
///
/// # Errors
///
/// If a module cannot be parsed.
pub fn gather_calls(modules: [&[u8]; 3], programs: &[CallCounts]) -> Result<String, PassError> {
    let [core, data, all] = modules.map(Input::parse);
    let inputs = [core?, data?, all?];
    let input = &inputs[0];
    let sites = sites(input)?;

    let mut weights: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for program in programs {
        let scale = ALL_CALLS / program.total() as f64 / programs.len() as f64;
        for (key, count) in program.iter() {
            *weights.entry(key).or_default() += count as f64 * scale;
        }
    }
    let mut entries: HashMap<u32, f64> = HashMap::new();
    let mut by_function: BTreeMap<u32, BTreeMap<u32, Vec<(u32, f64)>>> = BTreeMap::new();
    for (&(number, slot), &weight) in &weights {
        let site = &sites[number as usize];
        if let Some(&callee) = site.callee.as_ref().or_else(|| input.slots.get(&slot)) {
            *entries.entry(callee).or_default() += weight;
        }
        let function = by_function.entry(site.function).or_default();
        function.entry(site.operator).or_default().push((slot, weight));
    }

    let names = by_function.keys().map(|&index| input.name(index)).collect();
    let [core, data, all] = inputs.each_ref().map(|input| by_identity(input, &names));
    let functions = [core?, data?, all?];
    let mut recorded = Recorded::default();
    for (index, by_operator) in by_function {
        let key = (input.name(index), identity(input, index)?);
        // Exactly one per tier, with identical code.
        if functions.iter().any(|functions| functions.get(&key) != Some(&1)) {
            continue;
        }
        let mut function = Function {
            identity: key.1,
            entries: entries.get(&index).map_or(0, |&weight| weight.round() as u32),
            name: key.0.to_owned(),
            sites: Vec::new(),
        };
        for (operator, mut reached) in by_operator {
            reached.sort_by(|a, b| b.1.total_cmp(&a.1));
            let sum: f64 = reached.iter().map(|(_, weight)| weight).sum();
            let mut rest = sum;
            if sum < LEAST * ALL_CALLS {
                continue;
            }
            for (slot, weight) in reached.into_iter().take(SLOTS) {
                let Some(&target) = input.slots.get(&slot).filter(|_| slot != NO_SLOT) else {
                    continue;
                };
                let name = input.name(target);
                if weight < LEAST * ALL_CALLS || !inputs.iter().all(|input| has(input, slot, name))
                {
                    continue;
                }
                rest -= weight;
                function.sites.push(Site {
                    operator,
                    weight: weight.round() as u32,
                    slot: Some((slot, name.to_owned())),
                });
            }
            // For an indirect call, other slots.
            if rest.round() > 0.0 {
                function.sites.push(Site {
                    operator,
                    weight: rest.round() as u32,
                    slot: None,
                });
            }
        }
        if !function.sites.is_empty() {
            recorded.functions.push(function);
        }
    }
    Ok(recorded.write())
}

/// Counts the functions with these names that have the same code.
fn by_identity<'a>(
    input: &Input<'a>,
    names: &HashSet<&str>,
) -> Result<HashMap<(&'a str, u64), usize>, PassError> {
    let mut functions = HashMap::new();
    for index in input.defined().filter(|&index| names.contains(input.name(index))) {
        *functions.entry((input.name(index), identity(input, index)?)).or_default() += 1;
    }
    Ok(functions)
}

/// Whether a slot has the function of this name, and not what takes its place in a smaller tier.
fn has(input: &Input<'_>, slot: u32, name: &str) -> bool {
    input.slots.get(&slot).is_some_and(|&index| input.name(index) == name)
}
