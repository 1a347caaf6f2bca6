//! All functions together: without those that look at the fuel, no calls go round, and every call
//! comes back soon.

use super::CheckError;
use super::body::Body;

/// Operators that a call may run without a look, everything that it calls included, every operator
/// counted once for each way to it.
const MAX_WAY: u64 = 250_000;

/// Where a function is on the way through the calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Unseen,
    /// Its callees are being looked at.
    Open,
    /// A call runs so many operators without a look.
    Done(u64),
}

/// Checks the calls. A call through a table may reach whatever stands in one.
pub(super) fn check(functions: &[Body], in_table: &[u32]) -> Result<(), CheckError> {
    let mut places = vec![Place::Unseen; functions.len()];
    // First those that call through a table neither themselves nor by others, as far as that goes:
    // what they take bounds what such a call takes.
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

/// Finds what a call of `start` takes. `through_table` is what a call through a table takes; where
/// that is not known yet there must be none, or calls go round.
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

/// Opens a function, unless what a call of it takes is known.
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
