//! Gives a guest its fuel slice by slice, and tells how much it has used.

use wasmtime::{AsContextMut, Caller, Global, Instance, Linker, Val};

use super::State;
use super::control::give_way;
use crate::module::{FUEL, REFUEL};

/// Fuel that a guest has had, and how it gets more.
#[derive(Debug)]
pub(super) struct Meter {
    /// What it gets at once.
    slice: i64,
    /// What it has had since the count began.
    given: i64,
}

impl Default for Meter {
    /// Before the count begins; nothing runs yet.
    fn default() -> Self {
        Self { slice: 1, given: 0 }
    }
}

/// Adds what the metered module calls when it has no fuel.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(REFUEL.0, REFUEL.1, |mut caller: Caller<'_, State>, (): ()| {
        Box::new(async move {
            give_way().await;
            let meter = &mut caller.data_mut().meter;
            meter.given = meter.given.saturating_add(meter.slice);
            Ok(meter.slice)
        })
    })?;
    Ok(())
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
        };
        Ok(())
    }

    /// The fuel used since the count began.
    pub(super) fn used(&self, mut store: impl AsContextMut<Data = State>) -> u64 {
        let given = store.as_context_mut().data_mut().meter.given;
        let left = self.fuel.as_ref().and_then(|fuel| fuel.get(&mut store).i64()).unwrap_or(given);
        u64::try_from(given.saturating_sub(left)).unwrap_or_default()
    }
}
