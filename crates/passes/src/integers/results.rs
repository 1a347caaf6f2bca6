//! Results: makes indices and counts that numpy returns to the user 64 bits wide.
//!
//! Only functions called from Python are wrapped, not functions that libraries call from C. A
//! result is changed only if it has no other owner: an array that was passed as `out` stays.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::addresses::Addresses;
use super::offsets::{
    ARRAY_DESCRIPTOR, BUILTIN_DESCRIPTORS, DESCRIPTOR_NUMBER, DESCRIPTOR_SCALAR, OBJECT_TYPE,
};
use super::parsed::{Changes, Parsed};
use super::patterns::at;
use super::{Functions, IntegersError, LONG, LONG_LONG};

/// A function called from Python, its number of parameters, and the part of its result to widen.
struct Given {
    function: &'static str,
    parameters: usize,
    widened: Widened,
}

enum Widened {
    /// An array or a scalar.
    One,
    /// A tuple of arrays or scalars; other results are unchanged.
    Tuple,
    /// An array, if the first argument is a Python integer.
    OfInteger,
}

const GIVEN: &[Given] = &[
    given("array_argsort", 4, Widened::One),
    given("array_argmax", 4, Widened::One),
    given("array_argmin", 4, Widened::One),
    given("array_argpartition", 4, Widened::One),
    given("array_searchsorted", 4, Widened::One),
    given("array_lexsort", 4, Widened::One),
    given("array_count_nonzero", 3, Widened::One),
    given("arr_bincount", 4, Widened::One),
    given("arr_ravel_multi_index", 3, Widened::One),
    given("arr_unravel_index", 3, Widened::Tuple),
    given("array_nonzero", 2, Widened::Tuple),
    // With only a condition; with three arguments it returns an array.
    given("array_where", 3, Widened::Tuple),
    // numpy.random fills arrays of C longs.
    given("__pyx_pw_5numpy_6random_6mtrand_11RandomState_87binomial", 4, Widened::One),
    given("__pyx_pw_5numpy_6random_6mtrand_11RandomState_103multinomial", 4, Widened::One),
    given("__pyx_pw_5numpy_6random_6mtrand_11RandomState_35choice", 4, Widened::OfInteger),
    given("__pyx_pw_5numpy_6random_6mtrand_11RandomState_109permutation", 4, Widened::OfInteger),
];

const fn given(function: &'static str, parameters: usize, widened: Widened) -> Given {
    Given {
        function,
        parameters,
        widened,
    }
}

/// Bits of a type's flags.
const INTEGER: i32 = 1 << 24;
const TUPLE: i32 = 1 << 26;

pub(super) fn wrap(
    parsed: &Parsed<'_>,
    addresses: &Addresses,
    functions: &Functions,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    for given in GIVEN {
        let index = parsed.taking(given.function, given.parameters)?;
        changes.wrap(index, |inner| around(given, inner, addresses, functions))?;
    }
    Ok(())
}

fn around(given: &Given, inner: u32, addresses: &Addresses, functions: &Functions) -> Function {
    let result = given.parameters as u32;
    let mut function = Function::new([(1, ValType::I32)]);
    let mut code = function.instructions();
    for parameter in 0..result {
        code.local_get(parameter);
    }
    code.call(inner);
    match given.widened {
        Widened::One => code.call(functions.widen),
        Widened::Tuple => code.call(functions.widen_tuple),
        // For `self, args, nargs, names`: an argument passed by position.
        Widened::OfInteger => {
            code.local_set(result);
            code.block(BlockType::Empty);
            code.local_get(2).i32_eqz().br_if(0);
            code.local_get(1).i32_load(at(0));
            has_flag(&mut code, addresses, INTEGER);
            code.i32_eqz().br_if(0);
            code.local_get(result).call(functions.widen).return_().end();
            code.local_get(result)
        }
    };
    code.end();
    function
}

/// Pushes whether the type of the object on the stack has a flag.
fn has_flag(code: &mut InstructionSink<'_>, addresses: &Addresses, flag: i32) {
    code.i32_load(at(OBJECT_TYPE))
        .i32_load(at(addresses.layout.type_flags))
        .i32_const(flag)
        .i32_and();
}

/// The parameter of a function that takes an object.
const OBJECT: u32 = 0;

/// `(object) -> object`: widens a 32-bit object without other owners to 64 bits. Consumes its
/// argument; null, which represents an exception, stays null.
pub(super) fn widen_one(
    parsed: &Parsed<'_>,
    addresses: &Addresses,
) -> Result<Function, IntegersError> {
    const WIDE: u32 = 1;
    let is_subtype = parsed.taking("PyType_IsSubtype", 2)?;
    let descriptor = parsed.taking("PyArray_DescrFromType", 1)?;
    let cast = parsed.taking("PyArray_CastToType", 3)?;
    let from_scalar = parsed.taking("PyArray_FromScalar", 2)?;
    let to_scalar = parsed.taking("PyArray_Return", 1)?;
    let release = parsed.of_type("_Py_DecRef", 1, false)?;

    let mut function = Function::new([(1, ValType::I32)]);
    let mut code = function.instructions();
    code.block(BlockType::Empty);
    code.local_get(OBJECT).i32_eqz().br_if(0);
    code.local_get(OBJECT).i32_load(at(0)).i32_const(1).i32_ne().br_if(0);
    // A scalar of the narrow type.
    code.local_get(OBJECT)
        .i32_load(at(OBJECT_TYPE))
        .i32_const(0)
        .i32_load(at(u64::from(BUILTIN_DESCRIPTORS) + 4 * LONG as u64))
        .i32_load(at(DESCRIPTOR_SCALAR))
        .i32_eq()
        .if_(BlockType::Empty)
        .local_get(OBJECT)
        .i32_const(LONG_LONG)
        .call(descriptor)
        .call(from_scalar)
        .local_set(WIDE)
        .local_get(OBJECT)
        .call(release)
        .local_get(WIDE)
        .i32_eqz()
        .if_(BlockType::Empty)
        .i32_const(0)
        .return_()
        .end()
        .local_get(WIDE)
        .call(to_scalar)
        .return_()
        .end();
    // An array of the narrow type.
    code.local_get(OBJECT)
        .i32_load(at(OBJECT_TYPE))
        .i32_const(addresses.array_type)
        .call(is_subtype)
        .i32_eqz()
        .br_if(0);
    code.local_get(OBJECT)
        .i32_load(at(ARRAY_DESCRIPTOR))
        .i32_load(at(DESCRIPTOR_NUMBER))
        .i32_const(LONG)
        .i32_ne()
        .br_if(0);
    code.local_get(OBJECT)
        .i32_const(LONG_LONG)
        .call(descriptor)
        .i32_const(0)
        .call(cast)
        .local_set(WIDE)
        .local_get(OBJECT)
        .call(release)
        .local_get(WIDE)
        .return_();
    code.end();
    code.local_get(OBJECT).end();
    Ok(function)
}

/// `(object) -> object`: the same, if the caller is user code.
pub(super) fn widen(default_int: u32, widen_one: u32) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    for_the_user(&mut code, default_int);
    code.local_get(OBJECT).call(widen_one).end();
    function
}

/// `(object) -> object`: the same for the items of a tuple, if the caller is user code.
pub(super) fn widen_tuple(
    parsed: &Parsed<'_>,
    addresses: &Addresses,
    default_int: u32,
    widen_one: u32,
) -> Result<Function, IntegersError> {
    const NEXT: u32 = 1;
    const END: u32 = 2;
    const WIDE: u32 = 3;
    let layout = &addresses.layout;
    let release = parsed.of_type("_Py_DecRef", 1, false)?;

    let mut function = Function::new([(3, ValType::I32)]);
    let mut code = function.instructions();
    for_the_user(&mut code, default_int);
    code.block(BlockType::Empty);
    code.local_get(OBJECT).i32_load(at(0)).i32_const(1).i32_ne().br_if(0);
    code.local_get(OBJECT);
    has_flag(&mut code, addresses, TUPLE);
    code.i32_eqz().br_if(0);
    code.local_get(OBJECT).local_set(NEXT);
    code.local_get(OBJECT)
        .local_get(OBJECT)
        .i32_load(at(layout.tuple_size))
        .i32_const(2)
        .i32_shl()
        .i32_add()
        .local_set(END);
    code.loop_(BlockType::Empty);
    code.local_get(NEXT).local_get(END).i32_eq().br_if(1);
    code.local_get(NEXT).i32_load(at(layout.tuple_item)).call(widen_one).local_set(WIDE);
    // The tuple never contains a consumed object, and may contain null while it is built.
    code.local_get(NEXT).local_get(WIDE).i32_store(at(layout.tuple_item));
    code.local_get(WIDE)
        .i32_eqz()
        .if_(BlockType::Empty)
        .local_get(OBJECT)
        .call(release)
        .i32_const(0)
        .return_()
        .end();
    code.local_get(NEXT).i32_const(4).i32_add().local_set(NEXT);
    code.br(0).end();
    code.end();
    code.local_get(OBJECT).end();
    Ok(function)
}

/// Returns the object unchanged if it is null, or if the caller is a library.
fn for_the_user(code: &mut InstructionSink<'_>, default_int: u32) {
    code.block(BlockType::Empty);
    code.block(BlockType::Empty);
    code.local_get(OBJECT).i32_eqz().br_if(0);
    code.call(default_int).i32_const(LONG).i32_ne().br_if(1);
    code.end();
    code.local_get(OBJECT).return_();
    code.end();
}
