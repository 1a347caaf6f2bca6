//! Stubs for code that a tier of the module does not contain.

use std::sync::Arc;

use belljar_passes::{LIBRARIES, MISSING, Tier};
use wasmtime::{Caller, Linker, format_err};

use super::State;
use crate::artifact::tier_of;

/// A guest called code that its tier does not contain.
#[derive(Clone, Debug, thiserror::Error)]
#[error("this needs code of {library}, which the tier {has} does not hold")]
pub(crate) struct Missing {
    /// The library called.
    pub library: String,
    /// Tier of the guest.
    pub has: Tier,
    /// Whether its code is open for extensions.
    pub open: bool,
    /// Smallest tier that contains the library.
    pub needs: Tier,
}

/// The modules that a guest may import.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// Tier of its code.
    pub tier: Tier,
    /// Whether it is open for extensions.
    pub open: bool,
    /// Top-level modules that its library omits, although the code could run some of them.
    pub left_out: Arc<[String]>,
    /// Whether larger code is available: a run without visible effects is then restarted on it.
    pub grows: bool,
}

impl Held {
    /// Answers whether a guest may import the module that a frame names: empty, or the reason why
    /// not. Ends the guest if the run should restart.
    pub(super) fn answer(&self, frame: &[u8], is_seen: bool) -> Result<Vec<u8>, Missing> {
        let name: String = serde_json::from_slice(frame).unwrap_or_default();
        let needs = tier_of(&name);
        if self.tier >= needs {
            if self.left_out.contains(&name) {
                let why = "this bundle was made without it; one made with `--whole-library`, or with \
                           an image of a larger tier, has it";
                return Ok(format!("No module named '{name}': {why}").into_bytes());
            }
            return Ok(Vec::new());
        }
        let has = self.tier;
        if self.grows && !is_seen {
            return Err(Missing {
                library: name,
                has,
                open: self.open,
                needs,
            });
        }
        let hint = if self.grows {
            format!("import it before anything else, or run `belljar setup --tier {needs}` once")
        } else {
            format!("a bundle with an image of the tier {needs} has it")
        };
        let why = format!("it needs code of the tier {needs}, and this runs on {has}");
        Ok(format!("No module named '{name}': {why}; {hint}").into_bytes())
    }
}

/// Adds stubs for the functions that `tier` does not contain.
pub(super) fn add_to_linker(linker: &mut Linker<State>, tier: Tier) -> wasmtime::Result<()> {
    let stub = move |caller: Caller<'_, State>, library: u32| -> wasmtime::Result<()> {
        let Some(library) = LIBRARIES.get(library as usize) else {
            return Err(format_err!("the code has a library that is not known"));
        };
        Err(wasmtime::Error::new(Missing {
            library: library.name.to_owned(),
            has: tier,
            open: caller.data().held.open,
            needs: library.tier,
        }))
    };
    linker.func_wrap(MISSING.0, MISSING.1, stub)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core() -> Held {
        Held {
            tier: Tier::Core,
            open: false,
            left_out: Arc::new(["sympy".to_owned()]),
            grows: true,
        }
    }

    #[test]
    fn a_guest_may_import_what_its_tier_holds() {
        assert_eq!(core().answer(b"\"json\"", false).unwrap(), b"");
        assert_eq!(core().answer(b"no JSON", false).unwrap(), b"");
        let missing = core().answer(b"\"numpy\"", false).unwrap_err();
        assert_eq!((missing.has, missing.needs), (Tier::Core, Tier::Data));
        let data = Held {
            tier: Tier::Data,
            ..core()
        };
        assert_eq!(data.answer(b"\"numpy\"", true).unwrap(), b"");
    }

    #[test]
    fn what_was_seen_is_not_begun_again() {
        let answer = |grows| {
            let core = Held { grows, ..core() };
            String::from_utf8(core.answer(b"\"scipy\"", true).unwrap()).unwrap()
        };
        assert!(answer(true).contains("belljar setup --tier all"), "{}", answer(true));
        assert!(answer(false).contains("bundle"), "{}", answer(false));
        assert!(answer(false).starts_with("No module named 'scipy': "), "{}", answer(false));
    }

    #[test]
    fn what_was_left_out_of_the_library_is_said() {
        let answer = String::from_utf8(core().answer(b"\"sympy\"", false).unwrap()).unwrap();
        assert!(answer.starts_with("No module named 'sympy': "), "{answer}");
        assert!(answer.contains("--whole-library"), "{answer}");
    }
}
