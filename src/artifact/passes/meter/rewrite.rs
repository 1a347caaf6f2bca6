//! Writes the module again, with the counting in it.

use std::convert::Infallible;

use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{
    BlockType, BranchHint, BranchHints, CodeSection, ConstExpr, ElementSection, EntityType,
    ExportKind, ExportSection, FunctionSection, GlobalSection, GlobalType, ImportSection,
    Instruction as I, MemorySection, Module, TableSection, TagSection, TypeSection, ValType,
};
use wasmparser::{FunctionBody, Operator, Parser, Payload};

use super::analyse::{self, Analysed};
use super::body::{Added, Body};
use super::helpers;
use super::{FUEL, MAX_QUIET, PassError, REFUEL, unsupported};

/// What an entry or one turn of a loop may cost. An iteration that goes through a thousand
/// instructions seldom runs them all: the interpreter's own loop, for one.
const MAX_COST: u64 = 64;

/// The rewritten module.
pub(super) fn rewrite(
    module: &[u8],
    analysed: &Analysed,
    cut: &[bool],
) -> Result<Vec<u8>, PassError> {
    let imports = analysed.imports;
    // One function more is imported, which moves the others up by one.
    let slow = analysed.functions.len() as u32 + 1;
    let added = Added {
        fuel: analysed.globals,
        refuel: imports,
        slow,
        copy: slow + 1,
        fill: slow + 2,
    };
    let mut renumber = Renumber { imports };
    let mut out = Sections::default();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::TypeSection(section) => {
                renumber.parse_type_section(&mut out.types, section).map_err(refused)?;
            }
            Payload::ImportSection(section) => {
                renumber.parse_import_section(&mut out.imports, section).map_err(refused)?;
            }
            Payload::FunctionSection(section) => {
                renumber.parse_function_section(&mut out.functions, section).map_err(refused)?;
            }
            Payload::TableSection(section) => {
                renumber.parse_table_section(&mut out.tables, section).map_err(refused)?;
            }
            Payload::MemorySection(section) => {
                renumber.parse_memory_section(&mut out.memories, section).map_err(refused)?;
            }
            Payload::TagSection(section) => {
                renumber.parse_tag_section(&mut out.tags, section).map_err(refused)?;
            }
            Payload::GlobalSection(section) => {
                renumber.parse_global_section(&mut out.globals, section).map_err(refused)?;
            }
            Payload::ExportSection(section) => {
                renumber.parse_export_section(&mut out.exports, section).map_err(refused)?;
            }
            Payload::ElementSection(section) => {
                renumber.parse_element_section(&mut out.elements, section).map_err(refused)?;
            }
            Payload::CodeSectionEntry(body) => {
                let index = imports + out.code.len();
                let function = analysed.functions.get(index as usize).zip(cut.get(index as usize));
                let (function, &cut) = function.ok_or(BROKEN)?;
                let body = Rewriting::of(renumber, added, function).body(&body, cut)?;
                let hints = body.unlikely.into_iter().map(|at| BranchHint {
                    branch_func_offset: at,
                    branch_hint_value: 0,
                });
                if hints.len() > 0 {
                    out.hints.function_hints(index + 1, hints);
                }
                out.code.function(&body.function);
            }
            Payload::DataSection(_) | Payload::DataCountSection { .. } => {
                return Err(unsupported("it has data of its own"));
            }
            Payload::StartSection { .. } => {
                return Err(unsupported("it has a start function"));
            }
            // Custom sections name functions by their old indices.
            _ => {}
        }
    }
    if out.code.len() as usize + imports as usize != analysed.functions.len() {
        return Err(BROKEN);
    }
    out.add(added, analysed.types);
    Ok(out.finish())
}

const BROKEN: PassError = unsupported("its functions are not well formed");

fn refused(error: reencode::Error) -> PassError {
    match error {
        reencode::Error::ParseError(error) => error.into(),
        _ => unsupported("it has what is not known how to write"),
    }
}

#[derive(Default)]
struct Sections {
    types: TypeSection,
    imports: ImportSection,
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    tags: TagSection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    hints: BranchHints,
    code: CodeSection,
}

impl Sections {
    /// Adds what belongs to the meter, behind what is there.
    fn add(&mut self, added: Added, types: u32) {
        let (refuel, slow, bulk) = (types, types + 1, types + 2);
        self.types.ty().function([], [ValType::I64]);
        self.types.ty().function([], []);
        self.types.ty().function([ValType::I32; 3], []);
        self.imports.import(REFUEL.0, REFUEL.1, EntityType::Function(refuel));
        self.functions.function(slow).function(bulk).function(bulk);
        self.globals.global(
            GlobalType {
                val_type: ValType::I64,
                mutable: true,
                shared: false,
            },
            &ConstExpr::i64_const(0),
        );
        self.exports.export(FUEL, ExportKind::Global, added.fuel);
        helpers::write(added, &mut self.code);
    }

    fn finish(&self) -> Vec<u8> {
        let mut module = Module::new();
        module
            .section(&self.types)
            .section(&self.imports)
            .section(&self.functions)
            .section(&self.tables)
            .section(&self.memories);
        if !self.tags.is_empty() {
            module.section(&self.tags);
        }
        module
            .section(&self.globals)
            .section(&self.exports)
            .section(&self.elements)
            .section(&self.hints)
            .section(&self.code);
        module.finish()
    }
}

/// Numbers functions as they are numbered once one more is imported.
#[derive(Clone, Copy)]
struct Renumber {
    imports: u32,
}

impl Reencode for Renumber {
    type Error = Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, reencode::Error> {
        Ok(index.wrapping_add(u32::from(index >= self.imports)))
    }
}

/// One body on its way through the rewriter.
struct Rewriting<'a> {
    renumber: Renumber,
    added: Added,
    facts: &'a analyse::Function,
    /// Of each frame, the cost of a turn if it is a quiet loop.
    frames: Vec<Option<i64>>,
    /// The local in which quiet loops count their turns, where there is one.
    turns: Option<u32>,
}

impl<'a> Rewriting<'a> {
    fn of(renumber: Renumber, added: Added, facts: &'a analyse::Function) -> Self {
        Self {
            renumber,
            added,
            facts,
            frames: vec![None],
            turns: None,
        }
    }

    fn body(mut self, source: &FunctionBody<'_>, cut: bool) -> Result<Body, PassError> {
        let mut locals = Vec::new();
        let mut next = self.facts.parameters;
        for local in source.get_locals_reader()? {
            let (count, ty) = local?;
            next = next.checked_add(count).ok_or(BROKEN)?;
            locals.push((count, self.renumber.val_type(ty).map_err(refused)?));
        }
        if self.facts.loops.iter().any(|found| found.quiet) {
            locals.push((1, ValType::I32));
            self.turns = Some(next);
        }
        let mut out = Body::new(self.added, locals);
        if cut {
            out.look(cost(self.facts.cost));
        }
        if self.turns.is_some() {
            out.one(&I::Block(BlockType::Empty));
        }
        let mut loops = self.facts.loops.iter();
        for operator in source.get_operators_reader()? {
            let operator = operator?;
            match &operator {
                Operator::Loop { blockty } => {
                    let found = loops.next().ok_or(BROKEN)?;
                    let ty = self.renumber.block_type(*blockty).map_err(refused)?;
                    self.begin_loop(&mut out, found, ty);
                    continue;
                }
                Operator::Block { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                    self.frames.push(None);
                }
                Operator::End => {
                    self.end(&mut out)?;
                    continue;
                }
                Operator::Br { relative_depth } => {
                    if let Some(cost) = self.left(*relative_depth)? {
                        self.take_turns(&mut out, cost);
                    }
                    out.one(&I::Br(self.target(*relative_depth)?));
                    continue;
                }
                Operator::BrIf { relative_depth } => {
                    let target = self.target(*relative_depth)?;
                    match self.left(*relative_depth)? {
                        // Turns are taken where the branch is: another one goes on counting.
                        Some(cost) => {
                            out.one(&I::If(BlockType::Empty));
                            self.take_turns(&mut out, cost);
                            out.all(&[I::Br(target + 1), I::End]);
                        }
                        None => out.one(&I::BrIf(target)),
                    }
                    continue;
                }
                Operator::BrTable { targets } => {
                    let others = targets.targets().map(|depth| self.target(depth?));
                    let others: Vec<u32> = others.collect::<Result<_, PassError>>()?;
                    let default = self.target(targets.default())?;
                    out.one(&I::BrTable(others.into(), default));
                    continue;
                }
                Operator::Return => {
                    if let Some(cost) = self.quiet_around() {
                        self.take_turns(&mut out, cost);
                    }
                }
                Operator::MemoryCopy {
                    dst_mem: 0,
                    src_mem: 0,
                } => {
                    out.one(&I::Call(self.added.copy));
                    continue;
                }
                Operator::MemoryFill { mem: 0 } => {
                    out.one(&I::Call(self.added.fill));
                    continue;
                }
                _ => {}
            }
            out.one(&self.renumber.instruction(operator).map_err(refused)?);
        }
        if self.frames.is_empty() {
            Ok(out)
        } else {
            Err(BROKEN)
        }
    }

    /// A loop that calls, or has a loop inside, looks at every turn. A quiet one counts its turns in a
    /// local, which are taken where it is left, and traps after very many: to call the host from there
    /// would cost it the registers, even if it never happens.
    fn begin_loop(&mut self, out: &mut Body, found: &analyse::Loop, ty: BlockType) {
        let cost = cost(found.cost);
        let Some(turns) = self.turns.filter(|_| found.quiet) else {
            self.frames.push(None);
            out.one(&I::Loop(ty));
            out.look(cost);
            return;
        };
        let outermost = self.frames.len() as u32;
        self.frames.push(Some(cost));
        out.all(&[I::I32Const(0), I::LocalSet(turns), I::Loop(ty)]);
        out.all(&[I::LocalGet(turns), I::I32Const(1), I::I32Add, I::LocalTee(turns)]);
        out.all(&[I::I32Const(max_turns(found.size)), I::I32GtU]);
        out.unlikely(&I::BrIf(outermost));
    }

    fn end(&mut self, out: &mut Body) -> Result<(), PassError> {
        let closed = self.frames.pop().ok_or(BROKEN)?;
        if self.frames.is_empty() && self.turns.is_some() {
            // The results are on the stack; the block that ends here is left by quiet loops.
            out.all(&[I::Return, I::End]);
            out.overrun();
        }
        out.one(&I::End);
        if let Some(cost) = closed {
            self.take_turns(out, cost);
        }
        Ok(())
    }

    fn take_turns(&self, out: &mut Body, cost: i64) {
        if let Some(turns) = self.turns {
            out.take_turns(turns, cost);
        }
    }

    /// The cost of a turn of the quiet loop around. They are innermost: there is at most one.
    fn quiet_around(&self) -> Option<i64> {
        self.frames.iter().find_map(|quiet| *quiet)
    }

    /// The cost of a turn of the quiet loop that a branch leaves, if it leaves one.
    fn left(&self, depth: u32) -> Result<Option<i64>, PassError> {
        let target = (self.frames.len()).checked_sub(depth as usize + 1).ok_or(BROKEN)?;
        Ok(self.frames[target + 1..].iter().find_map(|quiet| *quiet))
    }

    /// The depth of a label: that of the function lies one further out where there is a block more.
    fn target(&self, depth: u32) -> Result<u32, PassError> {
        let target = (self.frames.len()).checked_sub(depth as usize + 1).ok_or(BROKEN)?;
        Ok(depth + u32::from(target == 0 && self.turns.is_some()))
    }
}

/// Turns that a quiet loop may make of so many operators each.
fn max_turns(size: u64) -> i32 {
    let turns = MAX_QUIET / (size + TURN);
    u32::try_from(turns).unwrap_or(u32::MAX - 1).cast_signed()
}

/// Operators with which a turn begins.
const TURN: u64 = 7;

const fn cost(counted: u64) -> i64 {
    let most = if counted > MAX_COST {
        MAX_COST
    } else {
        counted
    };
    if most == 0 { 1 } else { most.cast_signed() }
}
