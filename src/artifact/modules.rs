//! The top-level modules of the library, by the tier of code that they need, and by package.

use belljar_passes::Tier;

use super::PINS;

/// Returns the top-level modules of a package of the library, whose name is in its normalized form.
pub(crate) fn modules_of(package: &str) -> Option<&'static [String]> {
    PINS.packages.get(package).map(Vec::as_slice)
}

/// Returns the smallest tier that importing a top-level module needs.
pub(crate) fn tier_of(name: &str) -> Tier {
    let found = MODULES.iter().find(|(module, _)| *module == name);
    found.map_or(Tier::Core, |(_, tier)| *tier)
}

/// Modules of the library that call compiled code outside CPython, directly or through their
/// imports. The runner has the same list, and asks before it imports one of them.
const MODULES: &[(&str, Tier)] = &[
    ("PIL", Tier::Data),
    ("bs4", Tier::Data),
    ("contourpy", Tier::Data),
    ("formulaic", Tier::All),
    ("joblib", Tier::Data),
    ("kiwisolver", Tier::Data),
    ("lxml", Tier::Data),
    ("matplotlib", Tier::Data),
    ("mpl_toolkits", Tier::Data),
    ("numpy", Tier::Data),
    ("openpyxl", Tier::Data),
    ("pandas", Tier::Data),
    ("patsy", Tier::All),
    ("pylab", Tier::Data),
    ("regex", Tier::Data),
    ("reportlab", Tier::Data),
    ("scipy", Tier::All),
    ("seaborn", Tier::All),
    ("sklearn", Tier::All),
    ("statsmodels", Tier::All),
];

/// Packages of pure Python that are larger than the rest of a bundle with only `core`, which omits
/// them. The runner asks about these as well.
const LARGE: &[&str] =
    &["fontTools", "isympy", "mpmath", "narwhals", "networkx", "pypdf", "sympy", "xlsxwriter"];

/// Returns the top-level modules that a bundle with the code of `tier` omits: modules that need
/// more code, and, if `small`, large packages.
pub(crate) fn left_out(tier: Tier, small: bool) -> Vec<&'static str> {
    let without_code = MODULES.iter().filter(|(_, needs)| *needs > tier).map(|(module, _)| *module);
    let large = LARGE.iter().copied().filter(|_| small && tier == Tier::Core);
    without_code.chain(large).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_holds_the_ones_before_it() {
        assert!(Tier::EVERY.is_sorted());
        assert_eq!(tier_of("json"), Tier::Core);
        assert_eq!(tier_of("numpy"), Tier::Data);
        assert_eq!(tier_of("scipy"), Tier::All);
    }

    #[test]
    fn the_runner_asks_for_the_modules_that_are_known_here() {
        let hooks = include_str!("../../python-wasm/runner/protocol/hooks.py");
        let (_, list) = hooks.split_once("_UNSURE = frozenset((").unwrap();
        let (list, _) = list.split_once("))").unwrap();
        let mut asked: Vec<&str> =
            list.split(',').map(|name| name.trim().trim_matches('"')).collect();
        asked.retain(|name| !name.is_empty());
        let mut known = left_out(Tier::Core, true);
        known.sort_unstable();
        assert_eq!(asked, known);
    }

    #[test]
    fn what_a_tier_cannot_run_is_left_out_and_what_is_large_where_that_is_asked() {
        assert!(left_out(Tier::Core, false).contains(&"numpy"));
        assert!(!left_out(Tier::Core, false).contains(&"sympy"));
        assert!(left_out(Tier::Core, true).contains(&"sympy"));
        assert!(!left_out(Tier::Data, true).contains(&"sympy"));
        assert!(left_out(Tier::Data, true).contains(&"scipy"));
        assert!(!left_out(Tier::Data, true).contains(&"numpy"));
        assert_eq!(left_out(Tier::All, true), [""; 0]);
    }
}
