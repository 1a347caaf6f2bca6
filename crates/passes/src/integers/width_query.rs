//! Determines the width of the default integer from the calling code.
//!
//! The query walks the interpreter's frames, innermost first. The first matching rule decides:
//!
//! * Code in the library's archive is a library and needs the width of an address: 32 bits.
//! * numpy's functions act for their caller, so they are skipped (its modules count as a library
//!   while they are imported).
//! * A few modules of pandas only compute or convert for their caller and are skipped as well.
//! * The import system is a library.
//! * All other code is the user's: 64 bits.
//!
//! There are three such queries:
//!
//! * the query above is for indices;
//! * values (arrays of Python integers, and sums of integers) are 64 bits wide in libraries too
//!   ([`value_int`]), except in [`NARROW`];
//! * the type name `int` means 64 bits in libraries that convert values by it ([`NAMING`]), and in
//!   a function that was passed `int` ([`named_int`]): so the user's `dtype=int` reaches numpy.
//!
//! The query reads only objects that the interpreter itself relies on. The user chooses file names,
//! so the kind and length of a name are checked before its characters.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::addresses::{Addresses, Layout};
use super::offsets::{COMPACT_ASCII, OBJECT_TYPE};
use super::patterns::{aligned, at};
use super::{LONG, LONG_LONG};

/// The guest's path of the library's archive.
const ARCHIVE: &str = "/usr/local/lib/python315.zip/";

/// In the archive: skipped code.
const NUMPY: &str = "numpy/";

/// In the archive: code that computes or converts for its caller.
pub(super) const COMPUTING: &[&str] =
    &["pandas/core/nanops.py", "pandas/core/common.py", "pandas/core/dtypes/common.py"];

/// In the archive: code in which a type's name has the user's meaning.
const NAMING: &[&str] = &["pandas/", "scipy/", "sklearn/", "statsmodels/"];

/// In the archive, among these: code that names a type for functions that accept no other.
const NAMING_NARROW: &[&str] = &["scipy/special/", "sklearn/ensemble/_bagging.py"];

/// In the archive: code that converts Python integers to indices with the width of an address.
const NARROW: &[&str] = &["pandas/core/internals/managers.py", "scipy/signal/_peak_finding.py"];

/// Start of the file names of the import system and other built-in modules.
const FROZEN: &str = "<frozen ";

/// Name of a module's code.
const MODULE: &str = "<module>";

/// Maximum number of frames to walk. The interpreter's own limit is lower; this ensures termination
/// independently of it.
const MAX_FRAMES: i32 = 1 << 20;

/// `FRAME_OWNED_BY_INTERPRETER`: a frame of the interpreter itself, without code.
const OWNED_BY_INTERPRETER: i32 = 3;

const FRAME: u32 = 0;
const CODE: u32 = 1;
const NAME: u32 = 2;
const LEFT: u32 = 3;
const NEXT: u32 = 4;
const END: u32 = 5;

/// `() -> i32`. Code in files of the archive that start with an entry of `for_their_caller` has the
/// user's width.
pub(super) fn default_int(addresses: &Addresses, for_their_caller: &[&str]) -> Function {
    asked(addresses, for_their_caller, &[], Library::Narrow)
}

/// `() -> i32`: the same for code that names the type `int`.
pub(super) fn named_int(addresses: &Addresses) -> Function {
    asked(addresses, NAMING, NAMING_NARROW, Library::WideIfPassed)
}

/// `() -> i32`: the same for values. Code in [`NARROW`] keeps 32 bits.
pub(super) fn value_int(addresses: &Addresses) -> Function {
    asked(addresses, &[], NARROW, Library::Wide)
}

/// The width of integers in a library.
#[derive(Clone, Copy)]
enum Library {
    Narrow,
    Wide,
    /// Wide if a local variable of the function is `int`.
    WideIfPassed,
}

fn asked(
    addresses: &Addresses,
    for_their_caller: &[&str],
    narrow: &[&str],
    library: Library,
) -> Function {
    let layout = &addresses.layout;
    let mut function = Function::new([(6, ValType::I32)]);
    let mut code = function.instructions();
    code.i32_const(0)
        .i32_load(at(addresses.thread_state))
        .local_tee(FRAME)
        .i32_eqz()
        .if_(BlockType::Empty)
        .i32_const(LONG)
        .return_()
        .end();
    code.local_get(FRAME).i32_load(at(layout.current_frame)).local_set(FRAME);
    code.i32_const(MAX_FRAMES).local_set(LEFT);
    code.block(BlockType::Empty).loop_(BlockType::Empty);
    // No more frames.
    code.local_get(FRAME).i32_eqz().br_if(1);
    code.local_get(LEFT).i32_const(1).i32_sub().local_tee(LEFT).i32_eqz().br_if(1);
    // Leaving this block continues with the next frame.
    code.block(BlockType::Empty);
    code.local_get(FRAME)
        .i32_load8_u(aligned(layout.frame_owner, 0))
        .i32_const(OWNED_BY_INTERPRETER)
        .i32_eq()
        .br_if(0);
    // The lowest bits of the reference are a tag.
    code.local_get(FRAME)
        .i32_load(at(layout.frame_executable))
        .i32_const(-4)
        .i32_and()
        .local_tee(CODE)
        .i32_eqz()
        .br_if(0);
    code.local_get(CODE).i32_load(at(OBJECT_TYPE)).i32_const(addresses.code_type).i32_ne().br_if(0);
    code.local_get(CODE).i32_load(at(layout.code_filename)).local_set(NAME);
    answer_if(&mut code, layout, FROZEN, 0, LONG);
    // Code outside the archive.
    starts_with(&mut code, layout, ARCHIVE, 0);
    code.i32_eqz().if_(BlockType::Empty).i32_const(LONG_LONG).return_().end();
    for file in narrow {
        answer_if(&mut code, layout, file, ARCHIVE.len(), LONG);
    }
    for file in for_their_caller {
        answer_if(&mut code, layout, file, ARCHIVE.len(), LONG_LONG);
    }
    starts_with(&mut code, layout, NUMPY, ARCHIVE.len());
    code.i32_eqz().if_(BlockType::Empty);
    match library {
        Library::Narrow => code.i32_const(LONG).return_(),
        Library::Wide => code.i32_const(LONG_LONG).return_(),
        Library::WideIfPassed => {
            wide_if_passed(&mut code, addresses);
            code.i32_const(LONG).return_()
        }
    };
    code.end();
    code.local_get(CODE).i32_load(at(layout.code_name)).local_set(NAME);
    answer_if(&mut code, layout, MODULE, 0, LONG);
    code.end();
    code.local_get(FRAME).i32_load(at(layout.frame_previous)).local_set(FRAME);
    code.br(0).end().end();
    code.i32_const(LONG).end();
    function
}

/// Returns [`LONG_LONG`] if a local variable of the frame is `int`. While a frame runs, all slots
/// of local variables contain a reference or null.
fn wide_if_passed(code: &mut InstructionSink<'_>, addresses: &Addresses) {
    let layout = &addresses.layout;
    code.local_get(FRAME).i32_const(layout.frame_locals as i32).i32_add().local_tee(NEXT);
    code.local_get(CODE).i32_load(at(layout.code_locals)).i32_load(at(layout.tuple_size));
    code.i32_const(2).i32_shl().i32_add().local_set(END);
    code.block(BlockType::Empty).loop_(BlockType::Empty);
    code.local_get(NEXT).local_get(END).i32_ge_u().br_if(1);
    code.local_get(NEXT).i32_load(at(0)).i32_const(-4).i32_and();
    code.i32_const(addresses.int_type).i32_eq();
    code.if_(BlockType::Empty).i32_const(LONG_LONG).return_().end();
    code.local_get(NEXT).i32_const(4).i32_add().local_set(NEXT);
    code.br(0).end().end();
}

/// Returns `answer` if the text in `NAME` contains `part` at offset `skipped`.
fn answer_if(
    code: &mut InstructionSink<'_>,
    layout: &Layout,
    part: &str,
    skipped: usize,
    answer: i32,
) {
    starts_with(code, layout, part, skipped);
    code.if_(BlockType::Empty).i32_const(answer).return_().end();
}

/// Leaves 1 if the text in `NAME` contains `part` at offset `skipped`, else 0.
fn starts_with(code: &mut InstructionSink<'_>, layout: &Layout, part: &str, skipped: usize) {
    code.block(BlockType::Result(ValType::I32));
    code.i32_const(0);
    code.local_get(NAME)
        .i32_load(at(layout.text_state))
        .i32_const(COMPACT_ASCII)
        .i32_and()
        .i32_const(COMPACT_ASCII)
        .i32_ne()
        .br_if(0);
    code.local_get(NAME)
        .i32_load(at(layout.text_length))
        .i32_const(((skipped + part.len()) as u32).cast_signed())
        .i32_lt_u()
        .br_if(0);
    let mut offset = layout.text_letters + skipped as u64;
    let mut rest = part.as_bytes();
    while !rest.is_empty() {
        code.local_get(NAME);
        let size = match rest.len() {
            8.. => 8,
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
        let (piece, others) = rest.split_at(size);
        let mut value = [0; 8];
        value[..size].copy_from_slice(piece);
        let value = i64::from_le_bytes(value);
        let place = aligned(offset, 0);
        match size {
            8 => code.i64_load(place),
            4 => code.i64_load32_u(place),
            2 => code.i64_load16_u(place),
            _ => code.i64_load8_u(place),
        };
        code.i64_const(value).i64_ne().br_if(0);
        offset += size as u64;
        rest = others;
    }
    code.drop().i32_const(1).end();
}

// They run what they make.
#[cfg(test)]
mod tests {
    use wasm_encoder::{
        CodeSection, ExportKind, ExportSection, FunctionSection, MemorySection, MemoryType, Module,
        TypeSection,
    };
    use wasmtime::{Engine, Instance, Store};

    use super::*;

    const CODE_TYPE: i32 = 0x100;
    const INT_TYPE: i32 = 0x200;
    const THREAD_STATE: u64 = 16;

    fn addresses() -> Addresses {
        Addresses {
            thread_state: THREAD_STATE,
            code_type: CODE_TYPE,
            array_type: 0,
            int_type: INT_TYPE,
            type_error: 0,
            overflow_error: 0,
            index_error: 0,
            too_large: 0,
            layout: Layout {
                current_frame: 56,
                frame_previous: 4,
                frame_executable: 0,
                frame_locals: 40,
                code_locals: 88,
                frame_owner: 38,
                code_filename: 80,
                code_name: 84,
                type_flags: 84,
                tuple_item: 16,
                tuple_size: 8,
                text_state: 16,
                text_length: 8,
                text_letters: 20,
            },
        }
    }

    /// The interpreter's memory, with consecutive objects.
    struct Memory {
        bytes: Vec<u8>,
        next: usize,
    }

    impl Memory {
        fn new() -> Self {
            let mut memory = Self {
                bytes: vec![0; 65536],
                next: 1024,
            };
            memory.word(THREAD_STATE as usize, 512);
            memory
        }

        fn word(&mut self, at: usize, value: u32) {
            self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }

        fn take(&mut self, size: usize) -> usize {
            let at = self.next;
            self.next += size.next_multiple_of(8);
            at
        }

        fn text(&mut self, text: &str, state: u32) -> usize {
            let at = self.take(20 + text.len());
            self.text_at(at, text, state);
            at
        }

        fn text_at(&mut self, at: usize, text: &str, state: u32) {
            self.word(at + 8, text.len() as u32);
            self.word(at + 16, state);
            self.bytes[at + 20..at + 20 + text.len()].copy_from_slice(text.as_bytes());
        }

        /// Adds a frame of the function `name` in `file`, inside the existing frames.
        fn frame(&mut self, file: &str, name: &str) {
            let (file, name) = (self.text(file, 0x64), self.text(name, 0x64));
            self.frame_of(file, name, 0);
        }

        fn frame_of(&mut self, file: usize, name: usize, owner: u8) {
            let code = self.take(96);
            self.word(code + 4, CODE_TYPE.cast_unsigned());
            self.word(code + 80, file as u32);
            self.word(code + 84, name as u32);
            // Two local variables.
            let names = self.take(24);
            self.word(names + 8, 2);
            self.word(code + 88, names as u32);
            let frame = self.take(48);
            self.word(frame, code as u32 | 1);
            let outer = u32::from_le_bytes(self.bytes[568..572].try_into().unwrap());
            self.word(frame + 4, outer);
            self.bytes[frame + 38] = owner;
            self.word(568, frame as u32);
        }

        /// Sets the second local variable of the innermost frame.
        fn local(&mut self, value: u32) {
            let frame = u32::from_le_bytes(self.bytes[568..572].try_into().unwrap());
            self.word(frame as usize + 44, value);
        }

        fn asked(&self) -> i32 {
            self.asked_of(&default_int(&addresses(), COMPUTING))
        }

        fn asked_of(&self, function: &Function) -> i32 {
            let mut types = TypeSection::new();
            types.ty().function([], [ValType::I32]);
            let mut functions = FunctionSection::new();
            functions.function(0);
            let mut memories = MemorySection::new();
            memories.memory(MemoryType {
                minimum: 1,
                maximum: None,
                memory64: false,
                shared: false,
                page_size_log2: None,
            });
            let mut exports = ExportSection::new();
            exports.export("ask", ExportKind::Func, 0).export("memory", ExportKind::Memory, 0);
            let mut code = CodeSection::new();
            code.function(function);
            let mut module = Module::new();
            module.section(&types).section(&functions).section(&memories);
            module.section(&exports).section(&code);

            let engine = Engine::default();
            let module = wasmtime::Module::new(&engine, module.finish()).unwrap();
            let mut store = Store::new(&engine, ());
            let instance = Instance::new(&mut store, &module, &[]).unwrap();
            let memory = instance.get_memory(&mut store, "memory").unwrap();
            memory.data_mut(&mut store).copy_from_slice(&self.bytes);
            let ask = instance.get_typed_func::<(), i32>(&mut store, "ask").unwrap();
            ask.call(&mut store, ()).unwrap()
        }
    }

    /// Returns the answer for `frames`, given as `(file, name)`, outermost first.
    fn asked(frames: &[(&str, &str)]) -> i32 {
        let mut memory = Memory::new();
        for (file, name) in frames {
            memory.frame(file, name);
        }
        memory.asked()
    }

    const PANDAS: (&str, &str) = ("/usr/local/lib/python315.zip/pandas/core/frame.py", "sum");
    const NUMPY: (&str, &str) = ("/usr/local/lib/python315.zip/numpy/_core/numeric.py", "full");
    const USER: (&str, &str) = ("<code>", "<module>");

    #[test]
    fn the_user_has_64_bits_and_a_library_32() {
        assert_eq!(asked(&[USER]), LONG_LONG);
        assert_eq!(asked(&[PANDAS]), LONG);
        assert_eq!(asked(&[USER, PANDAS]), LONG);
        assert_eq!(asked(&[USER, PANDAS, USER]), LONG_LONG);
        assert_eq!(asked(&[]), LONG);
    }

    #[test]
    fn numpy_asks_for_its_caller() {
        assert_eq!(asked(&[USER, NUMPY, NUMPY]), LONG_LONG);
        assert_eq!(asked(&[USER, PANDAS, NUMPY]), LONG);
        assert_eq!(asked(&[NUMPY]), LONG);
        assert_eq!(asked(&[USER, (NUMPY.0, "<module>")]), LONG);
    }

    #[test]
    fn pandas_computes_for_its_caller_in_a_few_modules() {
        let path = "/usr/local/lib/python315.zip/pandas/core/";
        assert_eq!(asked(&[USER, PANDAS, (&format!("{path}nanops.py"), "nansum")]), LONG_LONG);
        assert_eq!(asked(&[USER, (&format!("{path}dtypes/common.py"), "x")]), LONG_LONG);
        assert_eq!(asked(&[USER, (&format!("{path}nanops_py"), "nansum")]), LONG);
    }

    #[test]
    fn a_librarys_values_have_64_bits_except_in_a_few_modules() {
        let path = "/usr/local/lib/python315.zip/";
        let asked = |file: &str, name: &str| {
            let mut memory = Memory::new();
            memory.frame(USER.0, USER.1);
            memory.frame(file, name);
            memory.asked_of(&value_int(&addresses()))
        };
        assert_eq!(asked(PANDAS.0, PANDAS.1), LONG_LONG);
        assert_eq!(asked(&format!("{path}{}", NARROW[0]), "f"), LONG);
        // numpy itself, while it is imported.
        assert_eq!(asked(NUMPY.0, MODULE), LONG);
    }

    #[test]
    fn int_that_is_passed_to_a_library_means_64_bits() {
        let scipy = "/usr/local/lib/python315.zip/networkx/convert_matrix.py";
        let mut memory = Memory::new();
        memory.frame(USER.0, USER.1);
        memory.frame(scipy, "eye");
        let asked = |memory: &Memory| memory.asked_of(&named_int(&addresses()));
        assert_eq!(asked(&memory), LONG);
        memory.local(INT_TYPE.cast_unsigned() | 1);
        assert_eq!(asked(&memory), LONG_LONG);
        memory.frame(NUMPY.0, NUMPY.1);
        assert_eq!(asked(&memory), LONG_LONG);
        // The local of a function that called the library has no effect.
        memory.frame(scipy, "index");
        assert_eq!(asked(&memory), LONG);
    }

    #[test]
    fn int_that_a_library_names_means_64_bits_except_where_functions_take_no_other() {
        let asked = |file: &str| {
            let mut memory = Memory::new();
            memory.frame(USER.0, USER.1);
            memory.frame(&format!("/usr/local/lib/python315.zip/{file}"), "f");
            memory.asked_of(&named_int(&addresses()))
        };
        assert_eq!(asked("scipy/linalg/_decomp_schur.py"), LONG_LONG);
        assert_eq!(asked("scipy/special/_lambertw.py"), LONG);
        assert_eq!(asked("joblib/parallel.py"), LONG);
    }

    #[test]
    fn only_what_is_in_the_archive_is_a_library() {
        for name in [
            "",
            "/",
            "/usr/local/lib/python315.zip",
            "/usr/local/lib/python315.zip_/pandas/a.py",
            "/usr/local/lib/python314.zip/pandas/a.py",
            "/packages/pandas/a.py",
            "<frozen",
        ] {
            assert_eq!(asked(&[PANDAS, (name, "f")]), LONG_LONG, "{name}");
        }
        assert_eq!(asked(&[USER, ("<frozen importlib._bootstrap>", "f")]), LONG);
    }

    #[test]
    fn a_name_that_is_not_ascii_is_the_users() {
        let mut memory = Memory::new();
        let name = memory.text(PANDAS.0, 0x24);
        memory.frame_of(name, name, 0);
        assert_eq!(memory.asked(), LONG_LONG);
    }

    #[test]
    fn a_short_name_at_the_end_of_memory_is_not_read_beyond() {
        let mut memory = Memory::new();
        let at = memory.bytes.len() - 24;
        memory.text_at(at, "/usr", 0x64);
        memory.frame_of(at, at, 0);
        assert_eq!(memory.asked(), LONG_LONG);
    }

    #[test]
    fn frames_without_code_are_passed_over() {
        let mut memory = Memory::new();
        memory.frame(PANDAS.0, PANDAS.1);
        memory.frame_of(0, 0, OWNED_BY_INTERPRETER as u8);
        assert_eq!(memory.asked(), LONG);
        // A frame with another object, or without one.
        for executable in [0, 0x40, 1] {
            let frame = memory.take(40);
            memory.word(frame, executable);
            let outer = u32::from_le_bytes(memory.bytes[568..572].try_into().unwrap());
            memory.word(frame + 4, outer);
            memory.word(568, frame as u32);
            assert_eq!(memory.asked(), LONG);
        }
    }

    #[test]
    fn frames_without_end_come_to_one() {
        let mut memory = Memory::new();
        memory.frame(NUMPY.0, NUMPY.1);
        let frame = u32::from_le_bytes(memory.bytes[568..572].try_into().unwrap());
        memory.word(frame as usize + 4, frame);
        assert_eq!(memory.asked(), LONG);
    }
}
