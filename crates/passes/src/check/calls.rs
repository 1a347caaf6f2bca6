//! Checks all calls: every call cycle contains a fuel check, and every call returns soon.

use super::CheckError;
use super::body::Body;

/// Maximum number of operators that a call may run without a check, including all callees, with
/// each operator counted once per path.
const MAX_WAY: u64 = 250_000;

/// State of a function in the traversal of calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Unseen,
    /// Its callees are being visited.
    Open,
    /// A call runs this many operators without a check.
    Done(u64),
}

/// Checks the calls. An indirect call may reach any function in a table.
pub(super) fn check(functions: &[Body], in_table: &[u32]) -> Result<(), CheckError> {
    let mut places = vec![Place::Unseen; functions.len()];
    // First the functions that make no indirect calls, directly or through others: they determine
    // the cost of an indirect call.
    let mut through_table = 0;
    for &function in in_table {
        visit(functions, function, None, &mut places)?;
        if let Place::Done(way) = places[function as usize] {
            through_table = through_table.max(way);
        }
    }
    for function in 0..functions.len() as u32 {
        visit(functions, function, Some(through_table), &mut places)?;
    }
    Ok(())
}

/// Computes the cost of a call of `start`. `through_table` is the cost of an indirect call; if it
/// is not known yet, an indirect call would be part of a cycle.
fn visit(
    functions: &[Body],
    start: u32,
    through_table: Option<u64>,
    places: &mut [Place],
) -> Result<(), CheckError> {
    let mut path: Vec<(u32, u64, std::slice::Iter<'_, u32>)> = Vec::new();
    if enter(functions, start, through_table, places)? {
        path.push((start, 0, functions[start as usize].callees.iter()));
    }
    while let Some((function, sum, callees)) = path.last_mut() {
        let Some(&callee) = callees.clone().next() else {
            let body = &functions[*function as usize];
            let indirect =
                through_table.unwrap_or(0).saturating_mul(u64::from(body.indirect_calls));
            let way = sum.saturating_add(body.size).saturating_add(indirect);
            if way > MAX_WAY {
                return Err(CheckError::Function {
                    function: *function,
                    why: "runs for too long without a look at the fuel",
                });
            }
            places[*function as usize] = Place::Done(way);
            path.pop();
            continue;
        };
        match places[callee as usize] {
            Place::Done(way) => {
                *sum = sum.saturating_add(way);
                callees.next();
            }
            _ => {
                if enter(functions, callee, through_table, places)? {
                    path.push((callee, 0, functions[callee as usize].callees.iter()));
                }
            }
        }
    }
    Ok(())
}

/// Visits a function, unless its cost is known.
fn enter(
    functions: &[Body],
    function: u32,
    through_table: Option<u64>,
    places: &mut [Place],
) -> Result<bool, CheckError> {
    let (body, place) = (&functions[function as usize], &mut places[function as usize]);
    let refused = |why| Err(CheckError::Function { function, why });
    match place {
        Place::Done(_) => Ok(false),
        Place::Open => refused("calls itself without a look at the fuel"),
        Place::Unseen if body.looks => {
            *place = Place::Done(0);
            Ok(false)
        }
        Place::Unseen if body.indirect_calls > 0 && through_table.is_none() => {
            refused("can be called through a table and calls through one without a look")
        }
        Place::Unseen => {
            *place = Place::Open;
            Ok(true)
        }
    }
}
