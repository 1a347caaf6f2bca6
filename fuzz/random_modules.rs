//! Random modules: nested loops, direct and indirect calls, branches everywhere. They terminate,
//! because they count down a budget; extensions do not.

use std::ops::Range;

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ElementSection, Elements, EntityType, ExportKind,
    ExportSection, Function, FunctionSection, GlobalSection, GlobalType, ImportSection,
    Instruction as I, MemArg, MemorySection, MemoryType, Module, NameMap, NameSection, RefType,
    Section, TableSection, TableType, TypeSection, ValType,
};

/// Maximum number of iterations and calls before a module traps.
const MAX_STEPS: i32 = 3_000;
const PARAMETERS: u32 = 2;
const LOCALS: u32 = 4;
const GLOBALS: u32 = 3;
/// The global that counts down; the others come before it.
const STEPS: u32 = GLOBALS;

/// Decisions from bytes. Without bytes, each decision is the first choice.
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn below(&mut self, count: u32) -> u32 {
        let Some((first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        u32::from(*first) % count
    }
}

/// Builds the module determined by `choices`.
pub fn module(mut choices: Choices<'_>) -> Vec<u8> {
    let count = 1 + choices.below(5);
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32; PARAMETERS as usize], [ValType::I32]);
    let mut functions = FunctionSection::new();
    let mut exports = ExportSection::new();
    let mut code = CodeSection::new();
    let mut previous: Option<Function> = None;
    for index in 0..count {
        functions.function(0);
        exports.export(&format!("f{index}"), ExportKind::Func, index);
        // Equal functions, to be merged.
        if let Some(previous) = &previous
            && choices.below(3) == 1
        {
            code.function(previous);
            continue;
        }
        let mut body = Body {
            choices: &mut choices,
            functions: 0..count,
            is_extension: false,
            out: Function::new([(LOCALS - PARAMETERS, ValType::I32)]),
            depth: 0,
            left: 60,
        };
        body.step();
        for _ in 0..=body.choices.below(6) {
            body.statement();
        }
        body.value(2);
        body.out.instruction(&I::End);
        code.function(&body.out);
        previous = Some(body.out);
    }
    let mut tables = TableSection::new();
    tables.table(table(u64::from(count) + 1));
    let mut elements = ElementSection::new();
    let all: Vec<u32> = (0..count).collect();
    elements.active(None, &ConstExpr::i32_const(0), Elements::Functions(all.into()));
    let mut memories = MemorySection::new();
    memories.memory(memory(1, Some(4)));
    exports.export("memory", ExportKind::Memory, 0);
    let mut globals = GlobalSection::new();
    for index in 0..=GLOBALS {
        let value = if index == STEPS {
            MAX_STEPS
        } else {
            index.cast_signed()
        };
        globals.global(GLOBAL, &ConstExpr::i32_const(value));
        exports.export(&format!("g{index}"), ExportKind::Global, index);
    }
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&tables).section(&memories);
    module.section(&globals).section(&exports).section(&elements).section(&code);
    module.finish()
}

/// Adds names to a module: its functions are `f0`, `f1`, ...
pub fn named(module: &[u8]) -> Vec<u8> {
    let mut functions = NameMap::new();
    for index in 0..5 {
        functions.append(index, &format!("f{index}"));
    }
    let mut section = NameSection::new();
    section.functions(&functions);
    let mut named = module.to_vec();
    section.append_to(&mut named);
    named
}

/// A replacement of a named module's first function that calls the original.
pub const CALLS_THE_ORIGINAL: &str = r#"(module
    (import "original" "f0" (func $f0 (param i32 i32) (result i32)))
    (func (export "f0") (param i32 i32) (result i32) (call $f0 (local.get 0) (local.get 1))))"#;

/// Builds an extension as the linker writes it. Its functions are exported as `f0`, `f1`, ...
pub fn extension(mut choices: Choices<'_>) -> Vec<u8> {
    let count = 1 + choices.below(5);
    let end = 1 + count;
    let functions = 1..end;
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32; PARAMETERS as usize], [ValType::I32]);
    types.ty().function([], []);
    let mut imports = ImportSection::new();
    imports.import("main", "link:f", EntityType::Function(1));
    imports.import("main", "memory", memory(0, None));
    imports.import("main", "belljar.table", table(0));
    imports.import("main", "belljar.stack_pointer", GLOBAL);
    let mut defined = FunctionSection::new();
    let mut exports = ExportSection::new();
    let mut code = CodeSection::new();
    for index in functions.clone() {
        defined.function(0);
        exports.export(&format!("f{}", index - 1), ExportKind::Func, index);
        let mut body = Body {
            choices: &mut choices,
            functions: functions.clone(),
            is_extension: true,
            out: Function::new([(LOCALS - PARAMETERS, ValType::I32)]),
            depth: 0,
            left: 60,
        };
        for _ in 0..=body.choices.below(6) {
            body.statement();
        }
        body.value(2);
        body.out.instruction(&I::End);
        code.function(&body.out);
    }
    let mut elements = ElementSection::new();
    let all: Vec<u32> = functions.collect();
    elements.active(None, &ConstExpr::i32_const(0), Elements::Functions(all.into()));
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&defined).section(&exports);
    module.section(&elements).section(&code);
    module.finish()
}

const GLOBAL: GlobalType = GlobalType {
    val_type: ValType::I32,
    mutable: true,
    shared: false,
};

fn memory(minimum: u64, maximum: Option<u64>) -> MemoryType {
    MemoryType {
        minimum,
        maximum,
        memory64: false,
        shared: false,
        page_size_log2: None,
    }
}

fn table(minimum: u64) -> TableType {
    TableType {
        element_type: RefType::FUNCREF,
        minimum,
        maximum: None,
        table64: false,
        shared: false,
    }
}

struct Body<'a, 'b> {
    choices: &'a mut Choices<'b>,
    functions: Range<u32>,
    /// An extension has one global, and leaves for the main module instead of counting down.
    is_extension: bool,
    out: Function,
    /// Enclosing labels, without the function's own.
    depth: u32,
    /// Remaining statements.
    left: u32,
}

impl Body<'_, '_> {
    fn all(&mut self, instructions: &[I<'_>]) {
        for instruction in instructions {
            self.out.instruction(instruction);
        }
    }

    fn count(&self) -> u32 {
        self.functions.end - self.functions.start
    }

    fn global(&mut self) -> u32 {
        let count = if self.is_extension { 1 } else { GLOBALS };
        self.choices.below(count)
    }

    /// Counts down, and traps at zero.
    fn step(&mut self) {
        if self.is_extension {
            if self.choices.below(2) == 0 {
                self.out.instruction(&I::Call(0));
            }
            return;
        }
        self.all(&[I::GlobalGet(STEPS), I::I32Const(1), I::I32Sub, I::GlobalSet(STEPS)]);
        self.all(&[I::GlobalGet(STEPS), I::I32Const(0), I::I32LtS, I::If(BlockType::Empty)]);
        self.all(&[I::Unreachable, I::End]);
    }

    fn inside(&mut self, header: &I<'_>) {
        let looping = matches!(header, I::Loop(_));
        self.out.instruction(header);
        self.depth += 1;
        if looping {
            self.step();
        }
        for _ in 0..=self.choices.below(4) {
            self.statement();
        }
        if looping && self.choices.below(3) > 0 {
            self.value(1);
            self.out.instruction(&I::BrIf(0));
        }
        self.depth -= 1;
        self.out.instruction(&I::End);
    }

    fn statement(&mut self) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        match self.choices.below(14) {
            0 | 1 => {
                self.value(2);
                let local = self.choices.below(LOCALS);
                self.out.instruction(&I::LocalSet(local));
            }
            2 => {
                self.value(2);
                let global = self.global();
                self.out.instruction(&I::GlobalSet(global));
            }
            3 => {
                self.address();
                self.value(2);
                self.out.instruction(&I::I32Store(PLACE));
            }
            4..=6 => self.inside(&I::Loop(BlockType::Empty)),
            7 => self.inside(&I::Block(BlockType::Empty)),
            8 => {
                self.value(1);
                self.inside(&I::If(BlockType::Empty));
            }
            9 if self.depth > 0 => {
                self.value(1);
                let label = self.choices.below(self.depth);
                self.out.instruction(&I::BrIf(label));
            }
            10 if self.depth > 0 => {
                // The following code is unreachable, but must be valid.
                let labels: Vec<u32> = (0..3).map(|_| self.choices.below(self.depth)).collect();
                self.all(&[I::Block(BlockType::Empty)]);
                self.value(1);
                let outer: Vec<u32> = labels.iter().map(|label| label + 1).collect();
                self.out.instruction(&I::BrTable(outer[1..].to_vec().into(), 0));
                self.all(&[I::End]);
            }
            11 => {
                self.value(1);
                self.all(&[I::If(BlockType::Empty)]);
                self.value(1);
                self.all(&[I::Return, I::End]);
            }
            12 => {
                for _ in 0..2 {
                    self.address();
                }
                self.value(1);
                self.all(&[I::I32Const(0x1ff), I::I32And]);
                let copy = I::MemoryCopy {
                    src_mem: 0,
                    dst_mem: 0,
                };
                let bulk = if self.choices.below(2) == 0 {
                    copy
                } else {
                    I::MemoryFill(0)
                };
                self.out.instruction(&bulk);
            }
            _ => {
                self.value(3);
                self.out.instruction(&I::Drop);
            }
        }
    }

    /// An address, sometimes out of bounds.
    fn address(&mut self) {
        self.value(1);
        let mask = if self.choices.below(40) == 39 {
            -1
        } else {
            0x7fff
        };
        self.all(&[I::I32Const(mask), I::I32And]);
    }

    fn value(&mut self, levels: u32) {
        let most = if levels == 0 { 3 } else { 11 };
        match self.choices.below(most) {
            0 => {
                let value = self.choices.below(256).cast_signed() * 7 - 300;
                self.out.instruction(&I::I32Const(value));
            }
            1 => {
                let local = self.choices.below(LOCALS);
                self.out.instruction(&I::LocalGet(local));
            }
            2 => {
                let global = self.global();
                self.out.instruction(&I::GlobalGet(global));
            }
            3 => {
                self.value(levels - 1);
                self.all(&[I::I32Const(0x7fff), I::I32And, I::I32Load(PLACE)]);
            }
            4 => {
                self.value(levels - 1);
                self.value(levels - 1);
                let function = self.functions.start + self.choices.below(self.count());
                self.out.instruction(&I::Call(function));
            }
            5 => {
                self.value(levels - 1);
                self.value(levels - 1);
                // One more than there are: the last is a trap.
                let slot = self.choices.below(self.count() + 1).cast_signed();
                self.all(&[
                    I::I32Const(slot),
                    I::CallIndirect {
                        type_index: 0,
                        table_index: 0,
                    },
                ]);
            }
            6 => self.all(&[I::I32Const(1), I::MemoryGrow(0)]),
            7 => {
                self.value(levels - 1);
                let local = self.choices.below(LOCALS);
                self.out.instruction(&I::LocalTee(local));
            }
            other => {
                self.value(levels - 1);
                self.value(levels - 1);
                let operator = match other {
                    8 => I::I32Add,
                    9 => I::I32Xor,
                    _ => I::I32LtU,
                };
                self.out.instruction(&operator);
            }
        }
    }
}

const PLACE: MemArg = MemArg {
    offset: 0,
    align: 0,
    target: wasm_encoder::MemArgTarget::Memory(0),
    ordering: None,
};
