//! Chooses the functions whose entries look at the fuel: so many that no calls go round without one,
//! and that a call of any other comes back soon.

use super::analyse::{Analysed, Function};

/// Operators that a call of a function without a check may run, with all that it calls, before one
/// is reached or it returns.
const MAX_WAY: u64 = 100_000;
/// The same for functions in a table: whoever calls through one has to reckon with the longest.
const MAX_TABLE_WAY: u64 = 50_000;

/// Of each function, whether its entry has a check. A call through a table runs `table_way` operators
/// or more.
pub(super) fn cut_set(module: &Analysed, table_way: u64) -> Vec<bool> {
    let callers = callers(&module.functions);
    let indirect = reaching_indirect_calls(&module.functions, &callers);
    // Calls that go round through a table enter a function that stands in it and reaches an
    // indirect call. The host comes in by exports.
    let mut cut: Vec<bool> = std::iter::zip(&module.functions, indirect)
        .map(|(function, reaches)| function.exported || function.in_table && reaches)
        .collect();
    // An import has no entry of its own.
    cut[..module.imports as usize].fill(false);
    cut_direct_cycles(&module.functions, &callers, &mut cut);
    cut_long_ways(&module.functions, module.imports, table_way, &mut cut);
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

/// Functions that call through a table, themselves or by direct calls.
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

/// Cuts the best-connected member of every cycle of direct calls, until there is none.
fn cut_direct_cycles(functions: &[Function], callers: &[Vec<u32>], cut: &mut [bool]) {
    loop {
        let components = components(functions, cut);
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

/// Which functions can reach each other by direct calls.
struct Components {
    /// Of each function that is not cut, the number of its component.
    of: Vec<u32>,
    count: usize,
}

const UNSEEN: u32 = u32::MAX;

/// Tarjan's strongly connected components, with a stack of its own: calls are nested deeply.
fn components(functions: &[Function], cut: &[bool]) -> Components {
    let mut of = vec![UNSEEN; functions.len()];
    let mut number = vec![UNSEEN; functions.len()];
    let mut low = vec![0; functions.len()];
    let mut open = Vec::new();
    let (mut count, mut next) = (0, 0);
    for start in (0..functions.len()).filter(|&f| !cut[f]) {
        if number[start] != UNSEEN {
            continue;
        }
        let mut path = vec![(start, functions[start].callees.iter())];
        number[start] = next;
        low[start] = next;
        next += 1;
        open.push(start);
        while let Some((here, callees)) = path.last_mut() {
            let here = *here;
            if let Some(&callee) = callees.next() {
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
                path.push((callee, functions[callee].callees.iter()));
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

/// Cuts what would run for too long without a check, callees first.
fn cut_long_ways(functions: &[Function], imports: u32, table_way: u64, cut: &mut [bool]) {
    let order = callees_first(functions, cut);
    let mut way = vec![0_u64; functions.len()];
    // What stands in a table and is not cut reaches no call through one: its ways come out first.
    let mut through_table = table_way;
    let indirect = reaching_indirect_calls(functions, &callers(functions));
    for reaching in [false, true] {
        for &index in order.iter().filter(|&&index| indirect[index] == reaching) {
            let function = &functions[index];
            let direct = function.callees.iter().filter(|&&callee| !cut[callee as usize]);
            let length = direct.map(|&callee| way[callee as usize]).fold(
                function.size + through_table * u64::from(function.indirect_calls),
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
                if function.in_table {
                    through_table = through_table.max(length);
                }
            }
        }
    }
}

/// The functions that are not cut, each after those that it calls.
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
