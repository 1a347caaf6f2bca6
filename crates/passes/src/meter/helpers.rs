//! The functions that the meter adds: a function that requests fuel from the host, and two that
//! copy and fill memory in pieces.

use wasm_encoder::{BlockType, CodeSection, Instruction as I, MemArg, ValType};

use super::Kind;
use super::body::{Added, Body};

/// Size of the pieces in which memory is copied and filled, with a fuel check before each.
const MAX_PIECE: i32 = 4 << 20;
/// Up to this length, loads and stores are used, at no cost beyond the call.
const MAX_SMALL: i32 = 32;

/// Writes the functions, in the order of their indices.
pub(super) fn write(added: Added, kind: Kind, code: &mut CodeSection) {
    for body in [slow(added), copy(added, kind), fill(added, kind)] {
        code.function(&body.function);
    }
}

fn slow(added: Added) -> Body {
    let mut body = Body::new(added, Vec::new());
    body.all(&[
        I::GlobalGet(added.fuel),
        I::Call(added.refuel),
        I::I64Add,
        I::GlobalSet(added.fuel),
        I::End,
    ]);
    body
}

// Parameters of both helpers.
const TO: u32 = 0;
/// Address of the source bytes, or the byte to fill with.
const FROM: u32 = 1;
const LENGTH: u32 = 2;
// Their locals.
const PIECE: u32 = 3;
const FIRST_LONG: u32 = 4;
const LAST_LONG: u32 = 5;
const FIRST_WIDE: u32 = 6;
const LAST_WIDE: u32 = 7;

fn helper(added: Added, kind: Kind) -> Body {
    let mut body = Body::new(added, vec![(1, ValType::I32), (2, ValType::I64), (2, ValType::V128)]);
    if kind == Kind::Extension {
        body.look(SHORT);
    }
    body
}

/// Cost of a helper's call in an extension, whose checks pay for all code.
const SHORT: i64 = 16;

/// Cost of the code of one piece.
const fn of_piece(kind: Kind) -> i64 {
    match kind {
        Kind::Main => 1,
        Kind::Extension => 4,
    }
}

/// Lengths covered by two accesses of one width, the second of which ends at the end.
#[derive(Clone, Copy)]
struct Width {
    bytes: i32,
    load: fn(MemArg) -> I<'static>,
    store: fn(MemArg) -> I<'static>,
    first: u32,
    last: u32,
}

const WIDTHS: [Width; 4] = [
    Width {
        bytes: 16,
        load: I::V128Load,
        store: I::V128Store,
        first: FIRST_WIDE,
        last: LAST_WIDE,
    },
    Width {
        bytes: 8,
        load: I::I64Load,
        store: I::I64Store,
        first: FIRST_LONG,
        last: LAST_LONG,
    },
    Width {
        bytes: 4,
        load: I::I64Load32U,
        store: I::I64Store32,
        first: FIRST_LONG,
        last: LAST_LONG,
    },
    Width {
        bytes: 2,
        load: I::I64Load16U,
        store: I::I64Store16,
        first: FIRST_LONG,
        last: LAST_LONG,
    },
];

const ANYWHERE: MemArg = MemArg {
    offset: 0,
    align: 0,
    target: wasm_encoder::MemArgTarget::Memory(0),
    ordering: None,
};

/// Pushes the address of the last `bytes` bytes of the range that starts at the local `start`.
fn last(start: u32, bytes: i32) -> [I<'static>; 5] {
    [I::LocalGet(start), I::LocalGet(LENGTH), I::I32Add, I::I32Const(bytes), I::I32Sub]
}

/// Copies `LENGTH` bytes from `FROM` to `TO`, which may overlap.
fn copy(added: Added, kind: Kind) -> Body {
    let mut body = helper(added, kind);
    // A length of zero is left to the instruction, which checks the addresses.
    body.all(&[I::LocalGet(LENGTH), I::I32Const(1), I::I32Sub]);
    body.all(&[I::I32Const(MAX_SMALL), I::I32LtU, I::If(BlockType::Empty)]);
    for width in WIDTHS {
        body.all(&[I::LocalGet(LENGTH), I::I32Const(width.bytes), I::I32GeU]);
        // All loads precede the stores, and the last bytes are stored first: an access out of
        // bounds leaves the memory unchanged.
        body.all(&[I::If(BlockType::Empty), I::LocalGet(FROM), (width.load)(ANYWHERE)]);
        body.one(&I::LocalSet(width.first));
        body.all(&last(FROM, width.bytes));
        body.all(&[(width.load)(ANYWHERE), I::LocalSet(width.last)]);
        body.all(&last(TO, width.bytes));
        body.all(&[I::LocalGet(width.last), (width.store)(ANYWHERE), I::LocalGet(TO)]);
        body.all(&[I::LocalGet(width.first), (width.store)(ANYWHERE), I::Return, I::End]);
    }
    body.all(&[I::LocalGet(TO), I::LocalGet(FROM), I::I32Load8U(ANYWHERE)]);
    body.all(&[I::I32Store8(ANYWHERE), I::Return, I::End]);

    // Forwards, if copied pieces do not overwrite later ones.
    body.all(&[I::LocalGet(TO), I::LocalGet(FROM), I::I32LeU, I::If(BlockType::Empty)]);
    body.all(&[I::Loop(BlockType::Empty)]);
    body.look(of_piece(kind));
    body.take_piece();
    body.all(&[I::LocalGet(TO), I::LocalGet(FROM)]);
    body.piece();
    body.one(&COPY);
    advance(&mut body, &[TO, FROM]);
    body.all(&[I::LocalGet(LENGTH), I::BrIf(0), I::End, I::Else]);

    body.all(&[I::Loop(BlockType::Empty)]);
    body.look(of_piece(kind));
    body.take_piece();
    body.all(&[I::LocalGet(LENGTH), I::LocalGet(PIECE), I::I32Sub, I::LocalSet(LENGTH)]);
    for start in [TO, FROM] {
        body.all(&[I::LocalGet(start), I::LocalGet(LENGTH), I::I32Add]);
    }
    body.piece();
    body.one(&COPY);
    body.all(&[I::LocalGet(LENGTH), I::BrIf(0), I::End, I::End, I::End]);
    body
}

/// Fills `LENGTH` bytes at `TO` with the byte `FROM`.
fn fill(added: Added, kind: Kind) -> Body {
    let mut body = helper(added, kind);
    body.all(&[I::LocalGet(LENGTH), I::I32Const(1), I::I32Sub]);
    body.all(&[I::I32Const(MAX_SMALL), I::I32LtU, I::If(BlockType::Empty)]);
    body.all(&[I::LocalGet(FROM), I::I8x16Splat, I::LocalTee(FIRST_WIDE)]);
    body.all(&[I::I64x2ExtractLane(0), I::LocalSet(FIRST_LONG)]);
    for width in WIDTHS {
        body.all(&[I::LocalGet(LENGTH), I::I32Const(width.bytes), I::I32GeU]);
        body.one(&I::If(BlockType::Empty));
        body.all(&last(TO, width.bytes));
        body.all(&[I::LocalGet(width.first), (width.store)(ANYWHERE), I::LocalGet(TO)]);
        body.all(&[I::LocalGet(width.first), (width.store)(ANYWHERE), I::Return, I::End]);
    }
    body.all(&[I::LocalGet(TO), I::LocalGet(FROM), I::I32Store8(ANYWHERE), I::Return, I::End]);

    body.all(&[I::Loop(BlockType::Empty)]);
    body.look(of_piece(kind));
    body.take_piece();
    body.all(&[I::LocalGet(TO), I::LocalGet(FROM)]);
    body.piece();
    body.one(&I::MemoryFill(0));
    advance(&mut body, &[TO]);
    body.all(&[I::LocalGet(LENGTH), I::BrIf(0), I::End, I::End]);
    body
}

const COPY: I<'static> = I::MemoryCopy {
    src_mem: 0,
    dst_mem: 0,
};

/// Advances past the piece.
fn advance(body: &mut Body, starts: &[u32]) {
    for &start in starts {
        body.all(&[I::LocalGet(start), I::LocalGet(PIECE), I::I32Add, I::LocalSet(start)]);
    }
    body.all(&[I::LocalGet(LENGTH), I::LocalGet(PIECE), I::I32Sub, I::LocalSet(LENGTH)]);
}

impl Body {
    /// Sets `PIECE` to the length of the next piece, and subtracts one unit per byte.
    fn take_piece(&mut self) {
        let fuel = self.added.fuel;
        self.at_most_a_piece(LENGTH);
        self.all(&[I::LocalSet(PIECE), I::GlobalGet(fuel), I::LocalGet(PIECE)]);
        self.all(&[I::I64ExtendI32U, I::I64Sub, I::GlobalSet(fuel)]);
    }

    /// Pushes the length of the piece, with its limit where the checker expects it.
    fn piece(&mut self) {
        self.at_most_a_piece(PIECE);
    }

    fn at_most_a_piece(&mut self, length: u32) {
        let (length, most) = (I::LocalGet(length), I::I32Const(MAX_PIECE));
        self.all(&[length.clone(), most.clone(), length, most, I::I32LtU, I::Select]);
    }
}
