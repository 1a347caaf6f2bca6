//! Functions whose operations are checked.

/// Functions by their origin. An entry includes all functions of that name.
pub(super) const FUNCTIONS: &[(&str, &str)] = &[
    (
        "loop of numpy for floats",
        "
        FLOAT_add_indexed FLOAT_subtract_indexed FLOAT_multiply_indexed FLOAT_divide_indexed
        FLOAT_sqrt FLOAT_reciprocal FLOAT_power
        FLOAT_floor_divide FLOAT_floor_divide_indexed FLOAT_remainder FLOAT_divmod FLOAT_setitem
        DOUBLE_add_indexed DOUBLE_subtract_indexed DOUBLE_multiply_indexed DOUBLE_divide_indexed
        DOUBLE_sqrt DOUBLE_reciprocal DOUBLE_power
        DOUBLE_floor_divide DOUBLE_floor_divide_indexed DOUBLE_remainder DOUBLE_divmod
        ",
    ),
    (
        "loop of numpy for half floats",
        "
        HALF_add HALF_add_indexed HALF_pairwise_sum HALF_subtract HALF_subtract_indexed
        HALF_multiply HALF_multiply_indexed HALF_divide HALF_divide_indexed HALF_floor_divide
        HALF_floor_divide_indexed HALF_remainder HALF_divmod HALF_square HALF_reciprocal
        npy_half_divmod npy_divmodf
        ",
    ),
    (
        "loop of numpy for complex numbers",
        "
        CFLOAT_add CFLOAT_add_indexed CFLOAT_pairwise_sum CFLOAT_subtract CFLOAT_subtract_indexed
        CFLOAT_multiply CFLOAT_multiply_indexed CFLOAT_divide CFLOAT_reciprocal CFLOAT_square
        CFLOAT_setitem
        CDOUBLE_add CDOUBLE_add_indexed CDOUBLE_pairwise_sum CDOUBLE_subtract
        CDOUBLE_subtract_indexed CDOUBLE_multiply CDOUBLE_multiply_indexed CDOUBLE_divide
        CDOUBLE_reciprocal CDOUBLE_square npy_cpow npy_cpowf
        ",
    ),
];

/// Functions that all tiers contain.
pub(super) const C_LIBRARY: &[(&str, &str)] = &[(
    "function of the C library",
    "
    __math_xflow __math_xflowf __math_invalid __math_invalidf
    acos acosf acosh acoshf asin asinf atanh atanhf cosh coshf sinh sinhf expm1 expm1f
    __expo2 __expo2f fmod fmodf hypot hypotf log10 log10f log1p log1pf pow powf
    scalbn scalbnf sin sinf cos cosf tan tanf specialcase
    ",
)];

/// Functions that raise flags only if the result is an infinity or NaN, except underflow.
pub(super) const FINITE: &str = "
    acos acosf asin asinf atanh atanhf cosh coshf sinh sinhf expm1 expm1f fmod fmodf hypot hypotf
    pow powf
";

/// Types of numpy's scalars, with the operations that have one C function each.
pub(super) const SCALARS: &[(&str, &str)] = &[
    (
        "half float double cfloat cdouble",
        "add subtract multiply true_divide floor_divide remainder divmod power",
    ),
    ("byte ubyte short ushort int uint long ulong longlong ulonglong", "true_divide power"),
];

/// The filters of `scipy.ndimage`, which compute with floats and convert the results.
pub(super) const FILTERS: &str = "NI_Correlate NI_GenericFilter NI_RankFilter NI_MinOrMaxFilter \
                                  NI_GeometricTransform NI_ZoomShift NI_LineBufferToArray";

/// Integer types whose reciprocals are computed as floats.
pub(super) const RECIPROCALS: &str =
    "byte ubyte short ushort int uint long ulong longlong ulonglong";

/// Start of the names of numpy's conversions.
pub(super) const CONVERSIONS: &[&str] = &[CONTIGUOUS, "_contig_cast", STRIDED, "_cast"];
pub(super) const CONTIGUOUS: &str = "_aligned_contig_cast";
pub(super) const STRIDED: &str = "_aligned_cast";
