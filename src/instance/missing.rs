//! Code that a tier of the module does not hold: what is called in its place.

use wasmtime::{Linker, format_err};

use super::State;
use crate::module::{LIBRARIES, MISSING, Tier};

/// A guest called code that its tier does not hold.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this needs code of {library}, which the tier {has} does not hold")]
pub(crate) struct Missing {
    /// The library that was called.
    pub library: &'static str,
    /// The tier that the guest ran on.
    pub has: Tier,
    /// The smallest one that holds the library.
    pub needs: Tier,
}

/// Adds what the code of `tier` calls in the place of what it does not hold.
pub(super) fn add_to_linker(linker: &mut Linker<State>, tier: Tier) -> wasmtime::Result<()> {
    linker.func_wrap(MISSING.0, MISSING.1, move |library: u32| -> wasmtime::Result<()> {
        let Some(library) = LIBRARIES.get(library as usize) else {
            return Err(format_err!("the code has a library that is not known"));
        };
        Err(wasmtime::Error::new(Missing {
            library: library.name,
            has: tier,
            needs: library.tier,
        }))
    })?;
    Ok(())
}
