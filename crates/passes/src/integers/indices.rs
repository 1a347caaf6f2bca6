//! Indices: accepts 64-bit integers where numpy requires the width of an address, if each of them
//! fits.
//!
//! numpy rejects them under the rule `safe`, or truncates them under the rule `same_kind`, because
//! they might not fit. Here each value is checked. Forced casts in C code are not checked, because
//! the code takes responsibility for them.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::addresses::Addresses;
use super::offsets::{
    ARRAY_DATA, ARRAY_DESCRIPTOR, ARRAY_DIMENSIONS, ARRAY_SHAPE, DESCRIPTOR_NUMBER, OBJECT_TYPE,
};
use super::parsed::{Changes, Parsed};
use super::patterns::{aligned, at};
use super::{IntegersError, LONG, LONG_LONG, UNSIGNED};

/// Flags of `PyArray_FromAny`.
const FORCE_CAST: i32 = 0x10;
const ENSURE_COPY: i32 = 0x20;
const WRITE_BACK: i32 = 0x2000;
const ENSURE_NO_COPY: i32 = 0x4000;
const SAME_KIND: i32 = 1 << 26;
/// Contiguous, aligned, in native byte order.
const PLAIN: i32 = 0x301;

/// The parameters of `PyArray_FromAny`.
const OBJECT: u32 = 0;
const DESCRIPTOR: u32 = 1;
const LEAST: u32 = 2;
const MOST: u32 = 3;
const FLAGS: u32 = 4;
const CONTEXT: u32 = 5;
/// Locals.
const RESULT: u32 = 6;
const WIDE_TYPE: u32 = 7;
const WIDE: u32 = 8;
const NEXT: u32 = 9;
const LEFT: u32 = 10;
const VALUE: u32 = 11;

pub(super) fn wrap(
    parsed: &Parsed<'_>,
    addresses: &Addresses,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let known = Known {
        from_number: parsed.taking("PyArray_DescrFromType", 1)?,
        is_subtype: parsed.taking("PyType_IsSubtype", 2)?,
        product: parsed.taking("PyArray_MultiplyList", 2)?,
        release: parsed.of_type("_Py_DecRef", 1, false)?,
        set_error: parsed.of_type("PyErr_SetString", 2, false)?,
        clear_error: parsed.of_type("PyErr_Clear", 0, false)?,
        error_matches: parsed.taking("PyErr_ExceptionMatches", 1)?,
        addresses,
    };
    let from_any = parsed.taking("PyArray_FromAny", 6)?;
    changes.wrap(from_any, |inner| known.narrowing(inner))?;
    let prepare = parsed.taking("prepare_index_noarray", 9)?;
    changes.wrap(prepare, |inner| known.prepare(inner, from_any))?;
    let ensure = parsed.taking("__pyx_pw_6pandas_5_libs_5algos_37ensure_platform_int", 4)?;
    changes.wrap(ensure, |inner| known.ensure(inner, from_any))
}

struct Known<'a> {
    from_number: u32,
    is_subtype: u32,
    product: u32,
    release: u32,
    set_error: u32,
    clear_error: u32,
    error_matches: u32,
    addresses: &'a Addresses,
}

impl Known<'_> {
    fn narrowing(&self, inner: u32) -> Function {
        let mut function = Function::new([(5, ValType::I32), (1, ValType::I64)]);
        let mut code = function.instructions();
        // Unchanged cases.
        code.block(BlockType::Empty);
        code.local_get(DESCRIPTOR).i32_eqz().br_if(0);
        code.local_get(DESCRIPTOR)
            .i32_load(at(DESCRIPTOR_NUMBER))
            .i32_const(LONG)
            .i32_ne()
            .br_if(0);
        code.local_get(FLAGS)
            .i32_const(FORCE_CAST | WRITE_BACK | ENSURE_NO_COPY)
            .i32_and()
            .br_if(0);

        code.i32_const(LONG_LONG).local_set(WIDE_TYPE);
        code.block(BlockType::Empty);
        self.wide_array(&mut code);
        code.br_if(0);
        self.try_as_it_is(&mut code, inner);
        code.end();
        self.by_value(&mut code, inner);
        code.return_();
        code.end();

        for parameter in OBJECT..=CONTEXT {
            code.local_get(parameter);
        }
        code.call(inner).end();
        function
    }

    /// Pushes 1 if the object is an array of 64-bit integers, whose type is then in `WIDE_TYPE`,
    /// else 0.
    fn wide_array(&self, code: &mut InstructionSink<'_>) {
        code.block(BlockType::Result(ValType::I32));
        code.i32_const(0);
        code.local_get(OBJECT)
            .i32_load(at(OBJECT_TYPE))
            .i32_const(self.addresses.array_type)
            .call(self.is_subtype)
            .i32_eqz()
            .br_if(0);
        code.drop();
        code.local_get(OBJECT)
            .i32_load(at(ARRAY_DESCRIPTOR))
            .i32_load(at(DESCRIPTOR_NUMBER))
            .local_tee(RESULT)
            .i32_const(LONG_LONG)
            .i32_eq();
        // Unsigned integers are only of the same kind.
        code.local_get(RESULT)
            .i32_const(LONG_LONG + UNSIGNED)
            .i32_eq()
            .local_get(FLAGS)
            .i32_const(SAME_KIND)
            .i32_and()
            .i32_const(0)
            .i32_ne()
            .i32_and()
            .i32_or()
            .local_tee(LEFT)
            .if_(BlockType::Empty)
            .local_get(RESULT)
            .local_set(WIDE_TYPE)
            .end();
        code.local_get(LEFT).end();
    }

    /// Returns numpy's own result, or continues after a `TypeError`, with the error cleared.
    fn try_as_it_is(&self, code: &mut InstructionSink<'_>, inner: u32) {
        code.i32_const(LONG).call(self.from_number).local_set(NEXT);
        code.local_get(OBJECT)
            .local_get(NEXT)
            .local_get(LEAST)
            .local_get(MOST)
            .local_get(FLAGS)
            .local_get(CONTEXT)
            .call(inner)
            .local_tee(RESULT)
            .if_(BlockType::Empty)
            .local_get(DESCRIPTOR)
            .call(self.release)
            .local_get(RESULT)
            .return_()
            .end();
        code.i32_const(0)
            .i32_load(at(self.addresses.type_error))
            .call(self.error_matches)
            .i32_eqz()
            .if_(BlockType::Empty)
            .local_get(DESCRIPTOR)
            .call(self.release)
            .i32_const(0)
            .return_()
            .end();
        code.call(self.clear_error);
    }

    /// Pushes the result of converting through 64-bit integers, each of which must fit. Null
    /// represents an exception.
    fn by_value(&self, code: &mut InstructionSink<'_>, inner: u32) {
        code.local_get(OBJECT)
            .local_get(WIDE_TYPE)
            .call(self.from_number)
            .local_get(LEAST)
            .local_get(MOST)
            .local_get(FLAGS)
            .i32_const(!ENSURE_COPY)
            .i32_and()
            .i32_const(PLAIN)
            .i32_or()
            .local_get(CONTEXT)
            .call(inner)
            .local_tee(WIDE)
            .i32_eqz()
            .if_(BlockType::Empty)
            .local_get(DESCRIPTOR)
            .call(self.release)
            .i32_const(0)
            .return_()
            .end();
        code.local_get(WIDE)
            .i32_load(at(ARRAY_SHAPE))
            .local_get(WIDE)
            .i32_load(at(ARRAY_DIMENSIONS))
            .call(self.product)
            .local_set(LEFT);
        code.local_get(WIDE).i32_load(at(ARRAY_DATA)).local_set(NEXT);
        code.block(BlockType::Empty).loop_(BlockType::Empty);
        code.local_get(LEFT).i32_eqz().br_if(1);
        code.local_get(NEXT).i64_load(aligned(0, 3)).local_set(VALUE);
        // As a signed integer; an unsigned one must not be below 0.
        code.local_get(VALUE)
            .i32_wrap_i64()
            .i64_extend_i32_s()
            .local_get(VALUE)
            .i64_ne()
            .local_get(VALUE)
            .i64_const(0)
            .i64_lt_s()
            .local_get(WIDE_TYPE)
            .i32_const(LONG_LONG)
            .i32_ne()
            .i32_and()
            .i32_or()
            .if_(BlockType::Empty)
            // A cast under `same_kind` is an index into an array.
            .i32_const(0)
            .i32_load(at(self.addresses.index_error))
            .i32_const(0)
            .i32_load(at(self.addresses.overflow_error))
            .local_get(FLAGS)
            .i32_const(SAME_KIND)
            .i32_and()
            .select()
            .i32_const(self.addresses.too_large)
            .call(self.set_error)
            .local_get(WIDE)
            .call(self.release)
            .local_get(DESCRIPTOR)
            .call(self.release)
            .i32_const(0)
            .return_()
            .end();
        code.local_get(NEXT).i32_const(8).i32_add().local_set(NEXT);
        code.local_get(LEFT).i32_const(1).i32_sub().local_set(LEFT);
        code.br(0).end().end();
        code.local_get(WIDE)
            .local_get(DESCRIPTOR)
            .local_get(LEAST)
            .local_get(MOST)
            .local_get(FLAGS)
            .i32_const(FORCE_CAST)
            .i32_or()
            .local_get(CONTEXT)
            .call(inner)
            .local_set(RESULT);
        code.local_get(WIDE).call(self.release);
        code.local_get(RESULT);
    }

    /// pandas' conversion to integers with the width of an address, which forces casts: an array of
    /// 64-bit integers is narrowed, with an `IndexError` if a value does not fit.
    fn ensure(&self, inner: u32, from_any: u32) -> Function {
        /// Parameters of a function called from Python, after `self`.
        const ARGUMENTS: u32 = 1;
        const COUNT: u32 = 2;
        const NAMES: u32 = 3;
        const ARRAY: u32 = 4;
        let mut function = Function::new([(1, ValType::I32)]);
        let mut code = function.instructions();
        code.block(BlockType::Empty);
        code.local_get(NAMES).br_if(0);
        code.local_get(COUNT).i32_const(1).i32_ne().br_if(0);
        code.local_get(ARGUMENTS).i32_load(at(0)).local_tee(ARRAY);
        code.i32_load(at(OBJECT_TYPE)).i32_const(self.addresses.array_type).i32_ne().br_if(0);
        code.local_get(ARRAY).i32_load(at(ARRAY_DESCRIPTOR)).i32_load(at(DESCRIPTOR_NUMBER));
        code.i32_const(LONG_LONG).i32_ne().br_if(0);
        code.local_get(ARRAY).i32_const(LONG).call(self.from_number);
        code.i32_const(0).i32_const(0).i32_const(SAME_KIND).i32_const(0).call(from_any).return_();
        code.end();
        for parameter in 0..=NAMES {
            code.local_get(parameter);
        }
        code.call(inner).end();
        function
    }

    /// Parses the parts of an index expression, and narrows arrays of 64-bit integers, with an
    /// `IndexError` if a value does not fit.
    fn prepare(&self, inner: u32, from_any: u32) -> Function {
        /// Parameters: destination of the parts, and of their number.
        const PARTS: u32 = 3;
        const COUNT: u32 = 4;
        const PARAMETERS: u32 = 9;
        /// Locals.
        const KIND: u32 = 9;
        const PART: u32 = 10;
        const END: u32 = 11;
        const NARROW: u32 = 12;
        /// Size of a part: an object, a number, its kind.
        const SIZE: i32 = 12;
        const PART_KIND: u64 = 8;
        const FANCY: i32 = 16;

        let mut function = Function::new([(4, ValType::I32)]);
        let mut code = function.instructions();
        for parameter in 0..PARAMETERS {
            code.local_get(parameter);
        }
        code.call(inner).local_set(KIND);
        code.block(BlockType::Empty);
        code.local_get(KIND).i32_const(-1).i32_eq().br_if(0);
        code.local_get(KIND).i32_const(FANCY).i32_and().i32_eqz().br_if(0);
        let ends = |code: &mut InstructionSink<'_>| {
            code.local_get(PARTS).local_set(PART);
            code.local_get(PARTS)
                .local_get(COUNT)
                .i32_load(at(0))
                .i32_const(SIZE)
                .i32_mul()
                .i32_add()
                .local_set(END);
        };
        ends(&mut code);
        code.loop_(BlockType::Empty);
        code.local_get(PART).local_get(END).i32_eq().br_if(1);
        code.block(BlockType::Empty);
        code.local_get(PART).i32_load(at(PART_KIND)).i32_const(FANCY).i32_ne().br_if(0);
        code.local_get(PART)
            .i32_load(at(0))
            .i32_load(at(ARRAY_DESCRIPTOR))
            .i32_load(at(DESCRIPTOR_NUMBER))
            .i32_const(LONG_LONG)
            .i32_sub()
            .i32_const(UNSIGNED)
            .i32_gt_u()
            .br_if(0);
        code.local_get(PART)
            .i32_load(at(0))
            .i32_const(LONG)
            .call(self.from_number)
            .i32_const(0)
            .i32_const(0)
            .i32_const(SAME_KIND)
            .i32_const(0)
            .call(from_any)
            .local_tee(NARROW)
            .i32_eqz()
            .if_(BlockType::Empty);
        // Like numpy's own cleanup: the caller gets no references.
        ends(&mut code);
        code.block(BlockType::Empty).loop_(BlockType::Empty);
        code.local_get(PART).local_get(END).i32_eq().br_if(1);
        code.local_get(PART)
            .i32_load(at(0))
            .if_(BlockType::Empty)
            .local_get(PART)
            .i32_load(at(0))
            .call(self.release)
            .end();
        code.local_get(PART).i32_const(SIZE).i32_add().local_set(PART);
        code.br(0).end().end();
        code.i32_const(-1).return_().end();
        code.local_get(PART).i32_load(at(0)).call(self.release);
        code.local_get(PART).local_get(NARROW).i32_store(at(0));
        code.end();
        code.local_get(PART).i32_const(SIZE).i32_add().local_set(PART);
        code.br(0).end();
        code.end();
        code.local_get(KIND).end();
        function
    }
}
