//! The policy chosen by options.

use belljar::Policy;
use belljar::request::Rules;

use super::args::PolicyChoice;
use super::exit::Usage;

/// The policy for `--policy` and `--allow-import`. The latter implies `strict` if no policy is
/// chosen.
pub(super) fn policy(chosen: Option<PolicyChoice>, allowed: &[String]) -> Result<Policy, Usage> {
    match (chosen, allowed) {
        (None | Some(PolicyChoice::Open), []) => Ok(Policy::Open),
        (Some(PolicyChoice::Strict), []) => Ok(Policy::Strict),
        (None | Some(PolicyChoice::Strict), allowed) => {
            let mut rules = Rules::default();
            rules.imports.extend_from_slice(allowed);
            Ok(Policy::Custom(rules))
        }
        (Some(PolicyChoice::Open), _) => {
            Err(Usage::new("--policy open allows every import: --allow-import adds nothing"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowing_an_import_asks_for_a_policy() {
        let allowed = ["os".to_owned()];
        assert_eq!(policy(None, &[]).unwrap(), Policy::Open);
        assert_eq!(policy(Some(PolicyChoice::Strict), &[]).unwrap(), Policy::Strict);
        let Ok(Policy::Custom(rules)) = policy(None, &allowed) else {
            panic!("an allowed import is a custom policy");
        };
        assert_eq!(rules.imports.len(), Rules::default().imports.len() + 1);
        assert!(policy(Some(PolicyChoice::Open), &allowed).is_err());
    }
}
