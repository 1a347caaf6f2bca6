//! Loops: bodies of the changed functions.

use wasm_encoder::{BlockType, Function, InstructionSink};

use super::super::patterns::{aligned, at};
use super::code::{Frame, Sign, Teller, pass_on};

#[derive(Clone, Copy)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Shift,
}

#[derive(Clone, Copy)]
pub(super) enum Unary {
    Square,
    Negative,
    Absolute,
}

impl Binary {
    /// Pushes the result of the operation on two numbers.
    fn compute(self, code: &mut InstructionSink<'_>, frame: Frame) {
        let (a, b) = (frame.number(0), frame.number(1));
        code.local_get(a).local_get(b);
        match self {
            Self::Add => code.i64_add(),
            Self::Subtract => code.i64_sub(),
            Self::Multiply => code.i64_mul(),
            // A shift by 32 or more gives zero.
            Self::Shift => {
                code.i64_const(32).local_get(b).i64_const(32).i64_lt_u().select().i64_shl()
            }
        };
    }
}

/// `(arrays, count, steps, data)`: a loop with two operands, possibly a reduction.
pub(super) fn binary(teller: Teller, operation: Binary, sign: Sign) -> Function {
    let (frame, mut function) = Frame::new(0, 4);
    let code = &mut function.instructions();
    frame.walk(code, &[0, 1, 2], |code| {
        for operand in [0, 1] {
            code.local_get(frame.place(operand));
            sign.load(code);
            code.local_set(frame.number(operand));
        }
        code.local_get(frame.place(2));
        operation.compute(code, frame);
        code.local_tee(frame.number(2)).i64_store32(aligned(0, 0));
        frame.note(code, sign, frame.number(2));
    });
    teller.tell_if(code, frame.bad());
    code.end();
    function
}

/// `(context, arrays, count, steps, data) -> i32`: the loop of `ufunc.at`.
pub(super) fn indexed(teller: Teller, operation: Binary, sign: Sign) -> Function {
    let (frame, mut function) = Frame::new(1, 5);
    let code = &mut function.instructions();
    let (arrays, steps) = (frame.arrays, frame.arrays + 2);
    let (index, element) = (frame.place(2), frame.place(3));
    frame.walk(code, &[1, 2], |code| {
        code.local_get(frame.place(0)).i32_load(at(0)).local_tee(index);
        code.i32_const(0).i32_lt_s().if_(BlockType::Empty);
        code.local_get(index).local_get(steps).i32_load(at(12)).i32_add().local_set(index).end();
        code.local_get(arrays).i32_load(at(0));
        code.local_get(steps).i32_load(at(0)).local_get(index).i32_mul().i32_add();
        code.local_tee(element);
        sign.load(code);
        code.local_set(frame.number(0)).local_get(frame.place(1));
        sign.load(code);
        code.local_set(frame.number(1)).local_get(element);
        operation.compute(code, frame);
        code.local_tee(frame.number(2)).i64_store32(aligned(0, 0));
        frame.note(code, sign, frame.number(2));
    });
    teller.tell_if(code, frame.bad());
    code.i32_const(0).end();
    function
}

/// `(arrays, count, steps, data)`: a loop with one operand.
pub(super) fn unary(teller: Teller, operation: Unary, sign: Sign) -> Function {
    let (frame, mut function) = Frame::new(0, 4);
    let code = &mut function.instructions();
    let number = frame.number(0);
    frame.walk(code, &[0, 1], |code| {
        code.local_get(frame.place(1)).local_get(frame.place(0));
        sign.load(code);
        code.local_set(number);
        match operation {
            Unary::Square => code.local_get(number).local_get(number).i64_mul(),
            Unary::Negative => code.i64_const(0).local_get(number).i64_sub(),
            Unary::Absolute => {
                code.local_get(number).i64_const(0).local_get(number).i64_sub();
                code.local_get(number).i64_const(0).i64_ge_s().select()
            }
        };
        code.local_tee(number).i64_store32(aligned(0, 0));
        frame.note(code, sign, number);
    });
    teller.tell_if(code, frame.bad());
    code.end();
    function
}

/// `(a, step, b, step, result, count, array)`
pub(super) fn dot(teller: Teller, sign: Sign) -> Function {
    const RESULT: u32 = 4;
    const COUNT: u32 = 5;
    let (frame, mut function) = Frame::new(0, 7);
    let code = &mut function.instructions();
    let sum = frame.number(0);
    frame.count_down(code, COUNT, |code| {
        code.local_get(sum);
        for operand in [0, 2] {
            code.local_get(operand);
            sign.load(code);
            code.local_get(operand).local_get(operand + 1).i32_add().local_set(operand);
        }
        code.i64_mul().i64_add().local_set(sum);
    });
    code.local_get(RESULT).local_get(sum).i64_store32(aligned(0, 0));
    frame.note(code, sign, sum);
    teller.tell_if(code, frame.bad());
    code.end();
    function
}

/// `(arrays, sizes, steps, data)`, based on the function for vectors.
pub(super) fn matmul(dot: u32) -> Function {
    const SIZES: u32 = 1;
    const STEPS: u32 = 2;
    let (frame, mut function) = Frame::new(0, 4);
    let code = &mut function.instructions();
    let step = |code: &mut InstructionSink<'_>, local: u32, which: u64| {
        code.local_get(local).local_get(STEPS).i32_load(at(4 * which)).i32_add().local_set(local);
    };
    let size = |code: &mut InstructionSink<'_>, which: u64| {
        code.local_get(SIZES).i32_load(at(4 * which));
    };
    let (outer, rows, columns) = (frame.left(), frame.place(0), frame.bad());
    let (row, column, result, cell) =
        (frame.place(1), frame.place(2), frame.place(3), frame.place(4));
    // The addresses of the matrices are in the array, which is restored afterwards.
    size(code, 0);
    code.local_set(outer);
    let base = frame.place(5);
    code.i32_const(0).local_set(base);
    frame.count_down(code, outer, |code| {
        let start = |code: &mut InstructionSink<'_>, which: u64, local| {
            code.local_get(0).i32_load(at(4 * which));
            code.local_get(STEPS).i32_load(at(4 * which)).local_get(base).i32_mul().i32_add();
            code.local_set(local);
        };
        start(code, 0, row);
        start(code, 2, result);
        size(code, 1);
        code.local_set(rows);
        frame.count_down(code, rows, |code| {
            start(code, 1, column);
            code.local_get(result).local_set(cell);
            size(code, 3);
            code.local_set(columns);
            frame.count_down(code, columns, |code| {
                code.local_get(row).local_get(STEPS).i32_load(at(16));
                code.local_get(column).local_get(STEPS).i32_load(at(20)).local_get(cell);
                size(code, 2);
                code.i32_const(0).call(dot);
                step(code, column, 6);
                step(code, cell, 8);
            });
            step(code, row, 3);
            step(code, result, 7);
        });
        code.local_get(base).i32_const(1).i32_add().local_set(base);
    });
    code.end();
    function
}

/// `(operands, arrays, steps, count)`: the loop of `einsum`.
pub(super) fn sum_of_products(teller: Teller, sign: Sign) -> Function {
    const OPERANDS: u32 = 0;
    const ARRAYS: u32 = 1;
    const STEPS: u32 = 2;
    const COUNT: u32 = 3;
    let (frame, mut function) = Frame::new(0, 4);
    let code = &mut function.instructions();
    let (at_element, operand, left) = (frame.place(0), frame.place(1), frame.place(2));
    let place = |code: &mut InstructionSink<'_>| {
        for array in [ARRAYS, STEPS] {
            code.local_get(array).local_get(operand).i32_const(2).i32_shl().i32_add();
            code.i32_load(at(0));
        }
        code.local_get(at_element).i32_mul().i32_add();
    };
    let product = frame.number(0);
    frame.count_down(code, COUNT, |code| {
        code.i64_const(1).local_set(product).i32_const(0).local_set(operand);
        code.local_get(OPERANDS).local_set(left);
        frame.count_down(code, left, |code| {
            place(code);
            sign.load(code);
            code.local_get(product).i64_mul().local_set(product);
            code.local_get(operand).i32_const(1).i32_add().local_set(operand);
        });
        place(code);
        place(code);
        sign.load(code);
        code.local_get(product).i64_add().local_tee(product).i64_store32(aligned(0, 0));
        frame.note(code, sign, product);
        code.local_get(at_element).i32_const(1).i32_add().local_set(at_element);
    });
    teller.tell_if(code, frame.bad());
    code.end();
    function
}

/// `(arrays, count, steps, data)`
pub(super) fn power(teller: Teller, inner: u32, sign: Sign) -> Function {
    let (frame, mut function) = Frame::new(0, 4);
    let code = &mut function.instructions();
    let (base, left, result) = (frame.number(0), frame.place(2), frame.number(1));
    frame.walk(code, &[0, 1], |code| {
        code.block(BlockType::Empty);
        code.local_get(frame.place(0));
        sign.load(code);
        // -1, 0 and 1 always fit; any other base overflows before its 32nd power.
        code.local_tee(base).i64_const(1).i64_add().i64_const(3).i64_lt_u().br_if(0);
        code.i64_const(1).local_set(result).local_get(frame.place(1)).i32_load(aligned(0, 0));
        code.local_tee(left).i32_const(32).i32_gt_s().if_(BlockType::Empty);
        code.i32_const(32).local_set(left).end();
        frame.count_down(code, left, |code| {
            code.local_get(result).local_get(base).i64_mul().local_set(result);
            sign.does_not_fit(code, result);
            code.if_(BlockType::Empty).i32_const(1).local_set(frame.bad()).br(3).end();
        });
        code.end();
    });
    teller.tell_if(code, frame.bad());
    pass_on(code, 4, inner);
    code.end();
    function
}

/// `(first, count, array) -> i32`: the loop of `arange`, which has set the first two elements.
pub(super) fn fill(teller: Teller, inner: u32, sign: Sign) -> Function {
    let (frame, mut function) = Frame::new(0, 3);
    let code = &mut function.instructions();
    let (first, last) = (frame.number(0), frame.number(1));
    code.local_get(0);
    sign.load(code);
    code.local_tee(first).local_get(0).i32_const(4).i32_add();
    sign.load(code);
    code.local_get(first).i64_sub().local_get(1).i32_const(1).i32_sub().i64_extend_i32_s();
    code.i64_mul().i64_add().local_set(last);
    frame.note(code, sign, last);
    teller.tell_if(code, frame.bad());
    pass_on(code, 3, inner);
    code.end();
    function
}

/// Source type of a cast.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Byte,
    Short,
    Word,
    UnsignedWord,
    Long,
    UnsignedLong,
    Float,
    Double,
}

/// numpy's names of types that may not fit into 32 bits.
pub(super) const SOURCES: &[(&str, Source)] = &[
    ("byte", Source::Byte),
    ("short", Source::Short),
    ("int", Source::Word),
    ("long", Source::Word),
    ("uint", Source::UnsignedWord),
    ("ulong", Source::UnsignedWord),
    ("longlong", Source::Long),
    ("ulonglong", Source::UnsignedLong),
    ("float", Source::Float),
    ("double", Source::Double),
    ("cfloat", Source::Float),
    ("cdouble", Source::Double),
];

impl Source {
    pub(super) fn may_not_fit(self, sign: Sign) -> bool {
        match self {
            Self::Byte | Self::Short | Self::Word => sign == Sign::Unsigned,
            Self::UnsignedWord => sign == Sign::Signed,
            _ => true,
        }
    }

    /// Pushes whether the value at the address on the stack does not fit.
    fn does_not_fit(self, code: &mut InstructionSink<'_>, frame: Frame, sign: Sign) {
        let (number, float) = (frame.number(0), frame.float());
        let place = aligned(0, 0);
        match self {
            Self::Byte => code.i64_load8_s(place),
            Self::Short => code.i64_load16_s(place),
            Self::Word => code.i64_load32_s(place),
            Self::UnsignedWord => code.i64_load32_u(place),
            Self::Long | Self::UnsignedLong => code.i64_load(place),
            Self::Float => code.f32_load(place).f64_promote_f32(),
            Self::Double => code.f64_load(place),
        };
        match self {
            Self::Float | Self::Double => {
                let (above, below) = match sign {
                    Sign::Signed => (-2_147_483_649.0, 2_147_483_648.0),
                    Sign::Unsigned => (-1.0, 4_294_967_296.0),
                };
                code.local_tee(float).f64_const(f64::into(above)).f64_gt();
                code.local_get(float).f64_const(f64::into(below)).f64_lt().i32_and().i32_eqz();
            }
            Self::UnsignedLong if sign == Sign::Signed => {
                code.i64_const(31).i64_shr_u().i64_const(0).i64_ne();
            }
            _ => {
                code.local_set(number);
                sign.does_not_fit(code, number);
            }
        }
    }
}

/// `(context, arrays, count, steps, data) -> i32`
pub(super) fn cast(teller: Teller, inner: u32, source: Source, sign: Sign) -> Function {
    let (frame, mut function) = Frame::new(1, 5);
    let code = &mut function.instructions();
    frame.walk(code, &[0], |code| {
        code.local_get(frame.place(0));
        source.does_not_fit(code, frame, sign);
        frame.remember(code);
    });
    teller.tell_if(code, frame.bad());
    pass_on(code, 5, inner);
    code.end();
    function
}

/// `(from, to, count, array, array)`: casts contiguous 64-bit values.
pub(super) fn legacy_cast(teller: Teller, inner: u32, source: Source, sign: Sign) -> Function {
    let (frame, mut function) = Frame::new(0, 5);
    let code = &mut function.instructions();
    code.local_get(0).local_set(frame.place(0)).local_get(2).local_set(frame.left());
    frame.count_down(code, frame.left(), |code| {
        code.local_get(frame.place(0));
        source.does_not_fit(code, frame, sign);
        frame.remember(code);
        code.local_get(frame.place(0)).i32_const(8).i32_add().local_set(frame.place(0));
    });
    teller.tell_if(code, frame.bad());
    pass_on(code, 5, inner);
    code.end();
    function
}

/// `(name, errors) -> i32`: the function that numpy's scalars call after an error.
pub(super) fn give(teller: Teller, inner: u32) -> Function {
    const OVERFLOW: i32 = 2;
    let mut function = Function::new([]);
    let code = &mut function.instructions();
    code.local_get(1).i32_const(OVERFLOW).i32_and().if_(BlockType::Empty);
    code.call(teller.0).end();
    pass_on(code, 2, inner);
    code.end();
    function
}

/// `(i32, i32) -> i32`: their product.
pub(super) fn product(teller: Teller, sign: Sign) -> Function {
    let (frame, mut function) = Frame::new(0, 2);
    let code = &mut function.instructions();
    for operand in [0, 1] {
        code.local_get(operand);
        match sign {
            Sign::Signed => code.i64_extend_i32_s(),
            Sign::Unsigned => code.i64_extend_i32_u(),
        };
    }
    code.i64_mul().local_set(frame.number(0));
    frame.note(code, sign, frame.number(0));
    teller.tell_if(code, frame.bad());
    code.local_get(frame.number(0)).i32_wrap_i64().end();
    function
}
