//! Gives a guest its fuel slice by slice, and counts how much it has used.

use belljar_passes::{FUEL, MAX_QUIET, OVERRUN, REFUEL};
use wasmtime::{AsContextMut, Caller, Func, Global, Instance, Linker, Val};

use super::State;
use super::control::give_way;

/// The fuel given to a guest.
#[derive(Debug)]
pub(super) struct Meter {
    /// Fuel per slice.
    slice: i64,
    /// Fuel given since the count started.
    given: i64,
    /// The counter, once the instance exists.
    fuel: Option<Global>,
}

impl Default for Meter {
    /// State before the count starts; no code runs yet.
    fn default() -> Self {
        Self {
            slice: 1,
            given: 0,
            fuel: None,
        }
    }
}

/// Adds the function that the metered module calls when it has no fuel.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(REFUEL.0, REFUEL.1, |mut caller: Caller<'_, State>, (): ()| {
        Box::new(async move { Ok(more_fuel(&mut caller).await) })
    })?;
    Ok(())
}

/// Creates the same function for the extensions of one instance.
pub(super) fn refuel(store: impl AsContextMut<Data = State>) -> Func {
    Func::wrap_async(store, |mut caller: Caller<'_, State>, (): ()| {
        Box::new(async move { Ok::<_, wasmtime::Error>(more_fuel(&mut caller).await) })
    })
}

async fn more_fuel(caller: &mut Caller<'_, State>) -> i64 {
    let slices = slices_owed(caller);
    caller.data().control.used_up(slices.cast_unsigned());
    give_way().await;
    let meter = &mut caller.data_mut().meter;
    let more = meter.slice.saturating_mul(slices);
    meter.given = meter.given.saturating_add(more);
    more
}

/// Charges the guest for work that the host does for it. If its fuel is used up, it gets more as
/// in [`add_to_linker`]'s function, which interrupts it at its limit.
pub(super) async fn charge(caller: &mut Caller<'_, State>, units: u64) -> wasmtime::Result<()> {
    let Some(fuel) = caller.data().meter.fuel else {
        return Ok(());
    };
    let left = fuel.get(&mut *caller).i64().unwrap_or_default();
    let left = left.saturating_sub(units.cast_signed());
    fuel.set(&mut *caller, Val::I64(left))?;
    if left < 0 {
        let more = more_fuel(caller).await;
        fuel.set(&mut *caller, Val::I64(left.saturating_add(more)))?;
    }
    Ok(())
}

/// Returns how many slices the guest needs to have fuel again: one, or more after a loop that did
/// not check its fuel.
fn slices_owed(caller: &mut Caller<'_, State>) -> i64 {
    let Meter { slice, fuel, .. } = caller.data().meter;
    let left = fuel.and_then(|fuel| fuel.get(caller).i64()).unwrap_or_default();
    let missing = left.min(0).unsigned_abs();
    missing.div_ceil(slice.unsigned_abs()).max(1).cast_signed()
}

/// The fuel counter of one instance.
pub(super) struct Counter {
    /// Missing only in code built without the meter.
    fuel: Option<Global>,
}

impl Counter {
    /// Returns the counter of `instance`.
    pub(super) fn of(instance: &Instance, store: impl AsContextMut) -> wasmtime::Result<Self> {
        let fuel = instance.get_global(store, FUEL);
        if fuel.is_none() && !cfg!(feature = "unmetered") {
            return Err(wasmtime::format_err!("the module exports no fuel"));
        }
        Ok(Self { fuel })
    }

    /// Starts the count, with one slice.
    pub(super) fn begin(
        &self,
        mut store: impl AsContextMut<Data = State>,
        slice: u64,
    ) -> wasmtime::Result<()> {
        let slice = i64::try_from(slice).unwrap_or(i64::MAX);
        if let Some(fuel) = &self.fuel {
            fuel.set(&mut store, Val::I64(slice))?;
        }
        store.as_context_mut().data_mut().meter = Meter {
            slice,
            given: slice,
            fuel: self.fuel,
        };
        Ok(())
    }

    /// Returns the fuel used since the count started, and whether a loop used so much that it must
    /// have run for too long. Such a loop counts as its limit.
    pub(super) fn used(&self, mut store: impl AsContextMut<Data = State>) -> (u64, bool) {
        let given = store.as_context_mut().data_mut().meter.given;
        let left = self.fuel.as_ref().and_then(|fuel| fuel.get(&mut store).i64()).unwrap_or(given);
        let used = given.saturating_sub(left);
        let overran = used >= OVERRUN;
        let used = if overran {
            used - OVERRUN + MAX_QUIET.cast_signed()
        } else {
            used
        };
        (u64::try_from(used).unwrap_or_default(), overran)
    }
}
