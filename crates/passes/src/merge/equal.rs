//! Finds equal functions.
//!
//! The meter makes the same decisions about all functions that become one, on every tier:
//!
//! * Either all or none of them are in the table, and likewise exported to the host. Tiers agree on
//!   both for the functions that they have.
//! * None of them is part of a cycle of direct calls, where the meter chooses a function by its
//!   index. Merging creates no cycles: if a function reached an equal function by calls, this would
//!   reach another, and so on; they are finitely many, so there was a cycle before.
//! * All else depends on the body and on called functions, which are equal.
//!
//! So the fuel is the same with and without the pass, whichever function stays, although smaller
//! tiers lack some of the equal functions.

use std::collections::{BTreeMap, HashMap};

use super::input::{Function, Input};
use crate::meter::on_cycles;

/// Returns, for each function, the first function that equals it.
pub(super) fn first_of_each(input: &Input<'_>) -> Vec<u32> {
    let count = input.imports as usize + input.functions.len();
    let mut first: Vec<u32> = (0..count as u32).collect();
    let groups = groups(input);
    // A round finds the functions that call those of the previous round.
    loop {
        let mut changed = false;
        for group in &groups {
            let mut seen: HashMap<Vec<u32>, u32> = HashMap::new();
            for &(index, function) in group {
                let calls = function.body.calls.iter();
                let calls = calls.map(|call| first[call.function as usize]).collect();
                let equal = *seen.entry(calls).or_insert(index);
                changed |= std::mem::replace(&mut first[index as usize], equal) != equal;
            }
        }
        if !changed {
            return first;
        }
    }
}

/// Returns groups of functions that may be merged and are equal except for the functions that they
/// call.
fn groups<'i>(input: &'i Input<'_>) -> Vec<Vec<(u32, &'i Function)>> {
    let imported = std::iter::repeat_n(Vec::new(), input.imports as usize);
    let defined = input.functions.iter().map(|function| {
        let calls = function.body.calls.iter();
        calls.map(|call| call.function).collect()
    });
    let callees: Vec<Vec<u32>> = imported.chain(defined).collect();
    let cyclic = on_cycles(&callees);
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (index, function) in (input.imports..).zip(&input.functions) {
        if !cyclic[index as usize] {
            let Function {
                content,
                in_table,
                exported,
                body,
                ..
            } = function;
            let group = groups.entry((content, in_table, exported, body.hash)).or_default();
            group.push((index, function));
        }
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
}
