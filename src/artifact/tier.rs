//! Tiers: parts of the Python module that are compiled.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The part of the Python module that is compiled to native code. Each tier contains the previous
/// ones.
///
/// An image runs on any tier that contains the code it calls, with the same results and the same
/// fuel: see `docs/internals/tiers.md`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Tier {
    /// CPython, and the libraries that its standard library needs.
    Core,
    /// Also numpy, pandas, matplotlib, Pillow, lxml and regex.
    Data,
    /// Everything.
    #[default]
    All,
}

impl Tier {
    /// All tiers, smallest first.
    pub const EVERY: [Self; 3] = [Self::Core, Self::Data, Self::All];

    /// Returns the name, as in file names and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Data => "data",
            Self::All => "all",
        }
    }

    /// Returns the smallest tier that importing a top-level module needs.
    pub(crate) fn of_module(name: &str) -> Self {
        let found = MODULES.iter().find(|(module, _)| *module == name);
        found.map_or(Self::Core, |(_, tier)| *tier)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
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

/// A library that is linked into the module.
pub(crate) struct Library {
    pub name: &'static str,
    /// Smallest tier that contains it.
    pub tier: Tier,
    /// Name of its first function in the module, in link order.
    pub first: &'static str,
}

impl Library {
    const fn new(name: &'static str, tier: Tier, first: &'static str) -> Self {
        Self { name, tier, first }
    }
}

/// The libraries in link order; each extends to the start of the next. A tier also contains
/// functions of other libraries that its own libraries call directly: a few functions of the C
/// library that the linker placed elsewhere, and the functions of LAPACK that numpy uses.
pub(crate) const LIBRARIES: &[Library] = &[
    Library::new("CPython", Tier::Core, ""),
    Library::new("numpy", Tier::Data, "Dragon4_PrintFloat_IEEE_binary16"),
    Library::new("pandas", Tier::Data, "PyInit__cyutility"),
    Library::new("Pillow", Tier::Data, "PyImagingNew"),
    Library::new("matplotlib", Tier::Data, "PyInit__cext"),
    Library::new("regex", Tier::Data, "PyInit__regex"),
    Library::new("lxml", Tier::Data, "initTagMatch"),
    Library::new("scipy", Tier::All, "PyInit_scipy__cyutility"),
    Library::new("scikit-learn", Tier::All, "PyInit__check_build"),
    Library::new("statsmodels", Tier::All, "PyInit__smoothers_lowess"),
    Library::new(
        "matplotlib",
        Tier::Data,
        "agg::curve3_inc::init(double, double, double, double, double, double)",
    ),
    Library::new("numpy", Tier::Data, "UBYTE_argmax"),
    Library::new("LAPACK", Tier::All, "sgbbrd_"),
    // Includes FreeType, HarfBuzz and Qhull.
    Library::new("Pillow", Tier::Data, "findModeID"),
    // Includes HiGHS and LIBSVM.
    Library::new(
        "scipy",
        Tier::All,
        "fitpack::_deBoor_D(double const*, double, int, int, int, double*)",
    ),
    Library::new("lxml", Tier::Data, "exsltRegisterAll"),
    Library::new("zlib", Tier::Core, "adler32_z"),
    Library::new("scipy", Tier::All, "chla_transtype_"),
    Library::new("numpy", Tier::Data, "wasi_numpy_ccopy_"),
    Library::new("the C library", Tier::Core, "mmap"),
    Library::new(
        "the C++ library",
        Tier::Data,
        "void std::__2::__sort<std::__2::__less<long, long>&, long*>(long*, long*, \
         std::__2::__less<long, long>&)",
    ),
    Library::new("the C library", Tier::Core, "__wasm_setjmp"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_holds_the_ones_before_it() {
        assert!(Tier::EVERY.is_sorted());
        assert_eq!(Tier::of_module("json"), Tier::Core);
        assert_eq!(Tier::of_module("numpy"), Tier::Data);
        assert_eq!(Tier::of_module("scipy"), Tier::All);
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
