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
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A library that is linked into the module.
#[derive(Debug)]
pub struct Library {
    /// Name for people.
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
pub const LIBRARIES: &[Library] = &[
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
