//! Makes the profile of counted calls.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::BROKEN;
use super::counting::{NO_SLOT, sites};
use super::identity::identity;
use super::input::Input;
use super::recorded::{ALL_CALLS, Function, Recorded, Site};
use crate::PassError;
use crate::tier::Tier;

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

/// The calls of several programs, of which each has the same weight.
#[derive(Default)]
pub struct Profile {
    /// By number of the call and slot: sums of parts of a program's calls.
    weights: BTreeMap<(u32, u32), f64>,
    /// Number of programs.
    programs: u32,
}

impl Profile {
    /// Adds a program. A program without calls does not count.
    pub fn add(&mut self, program: &CallCounts) {
        let total = program.total();
        if total > 0 {
            self.programs += 1;
            for (key, count) in program.iter() {
                *self.weights.entry(key).or_default() += count as f64 / total as f64;
            }
        }
    }

    /// Returns the recorded profile. `modules` are the pass's inputs for all tiers, smallest first;
    /// the calls of the module of `counted` were counted.
    ///
    /// # Errors
    ///
    /// If a module cannot be parsed.
    pub fn write(&self, modules: [&[u8]; 3], counted: Tier) -> Result<String, PassError> {
        let [core, data, all] = modules.map(Input::parse);
        let inputs = [core?, data?, all?];
        let input = &inputs[counted as usize];
        let (called, entries) = self.by_name(input)?;
        let names = called.keys().map(|&(name, _)| name).collect();
        let mut held = Vec::new();
        for input in &inputs {
            held.push(identities(input, &names)?);
        }

        let mut recorded = Recorded::default();
        for (key, by_operator) in called {
            // The first tier from which on all have the function.
            let smallest =
                held.iter().rposition(|held| !held.contains(&key)).map_or(0, |at| at + 1);
            let Some(&tier) = Tier::EVERY.get(smallest) else {
                continue;
            };
            let mut function = Function {
                tier,
                identity: key.1,
                entries: entries.get(&key).map_or(0, |&weight| weight.round() as u32),
                name: key.0.to_owned(),
                sites: Vec::new(),
            };
            for (operator, reached) in by_operator {
                function.sites.extend(recorded_sites(
                    operator,
                    reached,
                    input,
                    &inputs[smallest..],
                ));
            }
            if !function.sites.is_empty() {
                recorded.functions.push(function);
            }
        }
        recorded.functions.sort_by_key(|function| function.tier);
        Ok(recorded.write())
    }

    /// Returns, by name and hash, the calls in each function and the calls of each function.
    /// Functions with the same name and code, which the compiler made in several places, count as
    /// one.
    fn by_name<'a>(&self, input: &Input<'a>) -> Result<(Called<'a>, Entries<'a>), PassError> {
        let sites = sites(input)?;
        let scale = ALL_CALLS / f64::from(self.programs.max(1));
        let (mut called, mut entries) = (Called::new(), Entries::new());
        let mut keys: HashMap<u32, Key<'a>> = HashMap::new();
        let mut key_of = |function: u32| {
            Ok::<_, PassError>(match keys.entry(function) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    *new.insert((input.name(function), identity(input, function)?))
                }
            })
        };
        for (&(number, slot), &weight) in &self.weights {
            let site = sites.get(number as usize).ok_or(BROKEN)?;
            let weight = weight * scale;
            if let Some(&callee) = site.callee.as_ref().or_else(|| input.slots.get(&slot))
                && input.body(callee).is_some()
            {
                *entries.entry(key_of(callee)?).or_default() += weight;
            }
            let key = key_of(site.function)?;
            if !key.0.is_empty() {
                let by_operator = called.entry(key).or_default();
                let reached = by_operator.entry(site.operator).or_default();
                *reached.entry(slot).or_default() += weight;
            }
        }
        Ok((called, entries))
    }
}

/// Name of a function and hash of its code.
type Key<'a> = (&'a str, u64);

/// By function, operator and slot: weights.
type Called<'a> = BTreeMap<Key<'a>, BTreeMap<u32, BTreeMap<u32, f64>>>;

/// By function: weights of all calls of it.
type Entries<'a> = HashMap<Key<'a>, f64>;

/// Returns the lines for one call of a function of `tiers`.
fn recorded_sites(
    operator: u32,
    reached: BTreeMap<u32, f64>,
    input: &Input<'_>,
    tiers: &[Input<'_>],
) -> Vec<Site> {
    let mut reached: Vec<(u32, f64)> = reached.into_iter().collect();
    reached.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sum: f64 = reached.iter().map(|(_, weight)| weight).sum();
    let mut rest = sum;
    let mut sites = Vec::new();
    if sum < LEAST * ALL_CALLS {
        return sites;
    }
    for (slot, weight) in reached.into_iter().take(SLOTS) {
        let Some(&target) = input.slots.get(&slot).filter(|_| slot != NO_SLOT) else {
            continue;
        };
        let name = input.name(target);
        if weight < LEAST * ALL_CALLS || !tiers.iter().all(|input| has(input, slot, name)) {
            continue;
        }
        rest -= weight;
        sites.push(Site {
            operator,
            weight: weight.round() as u32,
            slot: Some((slot, name.to_owned())),
        });
    }
    // For an indirect call, other slots.
    if rest.round() > 0.0 {
        sites.push(Site {
            operator,
            weight: rest.round() as u32,
            slot: None,
        });
    }
    sites
}

/// Returns the functions with these names, by name and hash.
fn identities<'a>(input: &Input<'a>, names: &HashSet<&str>) -> Result<HashSet<Key<'a>>, PassError> {
    let functions = input.defined().filter(|&index| names.contains(input.name(index)));
    functions.map(|index| Ok((input.name(index), identity(input, index)?))).collect()
}

/// Whether a slot has the function of this name, and not what takes its place in a smaller tier.
fn has(input: &Input<'_>, slot: u32, name: &str) -> bool {
    input.slots.get(&slot).is_some_and(|&index| input.name(index) == name)
}
