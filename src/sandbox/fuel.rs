//! Gives a guest its fuel slice by slice, and tells how much it has used.

use wasmtime::{AsContextMut, Caller, Global, Instance, Linker, Val};

use super::State;
use super::control::give_way;
use crate::artifact::{FUEL, MAX_QUIET, OVERRUN, REFUEL};

/// Fuel that a guest has had, and how it gets more.
#[derive(Debug)]
pub(super) struct Meter {
    /// What it gets at once.
    slice: i64,
    /// What it has had since the count began.
    given: i64,
    /// The counter, once there is an instance.
    fuel: Option<Global>,
}

impl Default for Meter {
    /// Before the count begins; nothing runs yet.
    fn default() -> Self {
        Self {
            slice: 1,
            given: 0,
            fuel: None,
        }
    }
}

/// Adds what the metered module calls when it has no fuel.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(REFUEL.0, REFUEL.1, |mut caller: Caller<'_, State>, (): ()| {
        Box::new(async move {
            let slices = slices_owed(&mut caller);
            caller.data().control.used_up(slices.cast_unsigned());
            give_way().await;
            let meter = &mut caller.data_mut().meter;
            let more = meter.slice.saturating_mul(slices);
            meter.given = meter.given.saturating_add(more);
            Ok(more)
        })
    })?;
    Ok(())
}

/// How many slices the guest needs to have fuel again: one, or more behind a loop that did not look.
fn slices_owed(caller: &mut Caller<'_, State>) -> i64 {
    let Meter { slice, fuel, .. } = caller.data().meter;
    let left = fuel.and_then(|fuel| fuel.get(caller).i64()).unwrap_or_default();
    let missing = left.min(0).unsigned_abs();
    missing.div_ceil(slice.unsigned_abs()).max(1).cast_signed()
}

/// The counter of one instance.
pub(super) struct Counter {
    /// Only code that is measured without the meter has none.
    fuel: Option<Global>,
}

impl Counter {
    /// The counter of `instance`.
    pub(super) fn of(instance: &Instance, store: impl AsContextMut) -> wasmtime::Result<Self> {
        let fuel = instance.get_global(store, FUEL);
        if fuel.is_none() && !cfg!(feature = "unmetered") {
            return Err(wasmtime::format_err!("the module exports no fuel"));
        }
        Ok(Self { fuel })
    }

    /// Begins to count, with one slice.
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

    /// The fuel used since the count began, and whether a loop took what only a loop takes that ran
    /// for too long. Such a loop counts as what it may run.
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
