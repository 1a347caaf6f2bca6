//! Chooses the functions whose entries check the fuel: every call cycle contains one, and a call of
//! any other function returns soon.

use super::analyse::{Analysed, Function};

/// Maximum number of operators that a call of a function without a check may run, including its
/// callees, before a check or the return.
const MAX_WAY: u64 = 100_000;
/// The same for functions in a table. Every indirect call is assumed to run as many, whatever the
/// table contains, so that the same functions are chosen on every tier.
const MAX_TABLE_WAY: u64 = 50_000;

/// Returns, for each function, whether its entry has a check.
pub(super) fn cut_set(module: &Analysed) -> Vec<bool> {
    let callers = callers(&module.functions);
    let indirect = reaching_indirect_calls(&module.functions, &callers);
    // A call cycle through a table enters a function in the table that reaches an indirect call.
    // The host enters through exports.
    let mut cut: Vec<bool> = std::iter::zip(&module.functions, indirect)
        .map(|(function, reaches)| function.exported || function.in_table && reaches)
        .collect();
    // Imports have no entry of their own.
    cut[..module.imports as usize].fill(false);
    cut_direct_cycles(&module.functions, &callers, &mut cut);
    cut_long_ways(&module.functions, module.imports, &mut cut);
    cut
}

fn callers(functions: &[Function]) -> Vec<Vec<u32>> {
    let mut callers = vec![Vec::new(); functions.len()];
    for (index, function) in functions.iter().enumerate() {
        for &callee in &function.callees {
            callers[callee as usize].push(index as u32);
        }
    }
    callers
}

/// Returns the functions that make indirect calls, themselves or through direct calls.
fn reaching_indirect_calls(functions: &[Function], callers: &[Vec<u32>]) -> Vec<bool> {
    let mut reaches: Vec<bool> = functions.iter().map(|f| f.indirect_calls > 0).collect();
    let mut open: Vec<usize> = (0..functions.len()).filter(|&f| reaches[f]).collect();
    while let Some(function) = open.pop() {
        for &caller in &callers[function] {
            if !std::mem::replace(&mut reaches[caller as usize], true) {
                open.push(caller as usize);
            }
        }
    }
    reaches
}

/// Cuts the best-connected member of each cycle of direct calls, until no cycles remain.
fn cut_direct_cycles(functions: &[Function], callers: &[Vec<u32>], cut: &mut [bool]) {
    loop {
        let components = components(&|function| &functions[function].callees, cut);
        let mut best = vec![None; components.count];
        for (index, function) in functions.iter().enumerate() {
            if cut[index] {
                continue;
            }
            let component = components.of[index];
            let inside =
                |&&other: &&u32| components.of[other as usize] == component && !cut[other as usize];
            let out = function.callees.iter().filter(inside).count();
            if out == 0 {
                continue;
            }
            let into = callers[index].iter().filter(inside).count();
            let score = (out.min(into), out + into);
            let place = &mut best[component as usize];
            if place.is_none_or(|(most, _)| score > most) {
                *place = Some((score, index));
            }
        }
        let chosen: Vec<usize> = best.into_iter().flatten().map(|(_, index)| index).collect();
        if chosen.is_empty() {
            return;
        }
        for index in chosen {
            cut[index] = true;
        }
    }
}

/// Returns, for each function, whether it is part of a cycle of direct calls.
pub(crate) fn on_cycles(callees: &[Vec<u32>]) -> Vec<bool> {
    let components = components(&|function| &callees[function], &vec![false; callees.len()]);
    let mut sizes = vec![0_u32; components.count];
    for &component in &components.of {
        sizes[component as usize] += 1;
    }
    let members = components.of.iter().zip(callees).enumerate();
    members
        .map(|(index, (&component, callees))| {
            sizes[component as usize] > 1 || callees.contains(&(index as u32))
        })
        .collect()
}

/// Sets of functions that reach each other by direct calls.
struct Components {
    /// Number of the component of each function that is not cut.
    of: Vec<u32>,
    count: usize,
}

const UNSEEN: u32 = u32::MAX;

/// Computes Tarjan's strongly connected components, with an explicit stack, because calls are
/// nested deeply.
fn components<'f>(callees: &dyn Fn(usize) -> &'f [u32], cut: &[bool]) -> Components {
    let mut of = vec![UNSEEN; cut.len()];
    let mut number = vec![UNSEEN; cut.len()];
    let mut low = vec![0; cut.len()];
    let mut open = Vec::new();
    let (mut count, mut next) = (0, 0);
    for start in (0..cut.len()).filter(|&f| !cut[f]) {
        if number[start] != UNSEEN {
            continue;
        }
        let mut path = vec![(start, callees(start).iter())];
        number[start] = next;
        low[start] = next;
        next += 1;
        open.push(start);
        while let Some((here, rest)) = path.last_mut() {
            let here = *here;
            if let Some(&callee) = rest.next() {
                let callee = callee as usize;
                if cut[callee] || of[callee] != UNSEEN {
                    continue;
                }
                if number[callee] != UNSEEN {
                    low[here] = low[here].min(number[callee]);
                    continue;
                }
                number[callee] = next;
                low[callee] = next;
                next += 1;
                open.push(callee);
                path.push((callee, callees(callee).iter()));
                continue;
            }
            path.pop();
            if let Some(&(caller, _)) = path.last() {
                low[caller] = low[caller].min(low[here]);
            }
            if low[here] == number[here] {
                while let Some(member) = open.pop() {
                    of[member] = count;
                    if member == here {
                        break;
                    }
                }
                count += 1;
            }
        }
    }
    Components {
        of,
        count: count as usize,
    }
}

/// Cuts functions that would run too long without a check, callees first.
fn cut_long_ways(functions: &[Function], imports: u32, cut: &mut [bool]) {
    let mut way = vec![0_u64; functions.len()];
    for index in callees_first(functions, cut) {
        let function = &functions[index];
        let direct = function.callees.iter().filter(|&&callee| !cut[callee as usize]);
        let length = direct.map(|&callee| way[callee as usize]).fold(
            function.size + MAX_TABLE_WAY * u64::from(function.indirect_calls),
            u64::saturating_add,
        );
        let most = if function.in_table {
            MAX_TABLE_WAY
        } else {
            MAX_WAY
        };
        if length > most && index >= imports as usize {
            cut[index] = true;
        } else {
            way[index] = length;
        }
    }
}

/// Returns the functions that are not cut, each after its callees.
fn callees_first(functions: &[Function], cut: &[bool]) -> Vec<usize> {
    let mut seen = cut.to_vec();
    let mut order = Vec::new();
    for start in 0..functions.len() {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut path = vec![(start, functions[start].callees.iter())];
        while let Some((here, callees)) = path.last_mut() {
            match callees.next() {
                Some(&callee) if std::mem::replace(&mut seen[callee as usize], true) => {}
                Some(&callee) => {
                    path.push((callee as usize, functions[callee as usize].callees.iter()));
                }
                None => {
                    order.push(*here);
                    path.pop();
                }
            }
        }
    }
    order
}
