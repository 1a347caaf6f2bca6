//! Code that a tier of the module does not hold: what is called in its place.

use std::sync::Arc;

use wasmtime::{Linker, format_err};

use super::State;
use crate::artifact::{LIBRARIES, MISSING, Tier};

/// A guest called code that its tier does not hold.
#[derive(Clone, Debug, thiserror::Error)]
#[error("this needs code of {library}, which the tier {has} does not hold")]
pub(crate) struct Missing {
    /// The library that was called.
    pub library: String,
    /// The tier that the guest ran on.
    pub has: Tier,
    /// The smallest one that holds the library.
    pub needs: Tier,
}

/// What a guest may import.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The tier of its code.
    pub tier: Tier,
    /// Top-level modules that its library does not have, although the code could run some of them.
    pub left_out: Arc<[String]>,
    /// There can be more: a run that nobody has seen anything of is begun again on it.
    pub grows: bool,
}

impl Held {
    /// Whether a guest may import the module that a frame names: an empty answer, or why not. It is
    /// ended where it is to begin again.
    pub(super) fn answer(&self, frame: &[u8], is_seen: bool) -> Result<Vec<u8>, Missing> {
        let name: String = serde_json::from_slice(frame).unwrap_or_default();
        let needs = Tier::of_module(&name);
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

/// Adds what the code of `tier` calls in the place of what it does not hold.
pub(super) fn add_to_linker(linker: &mut Linker<State>, tier: Tier) -> wasmtime::Result<()> {
    linker.func_wrap(MISSING.0, MISSING.1, move |library: u32| -> wasmtime::Result<()> {
        let Some(library) = LIBRARIES.get(library as usize) else {
            return Err(format_err!("the code has a library that is not known"));
        };
        Err(wasmtime::Error::new(Missing {
            library: library.name.to_owned(),
            has: tier,
            needs: library.tier,
        }))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core() -> Held {
        Held {
            tier: Tier::Core,
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
