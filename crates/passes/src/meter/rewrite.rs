//! Rewrites the module with counting.

use std::convert::Infallible;

use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{
    BlockType, BranchHint, BranchHints, CodeSection, ConstExpr, ElementSection, EntityType,
    ExportKind, ExportSection, FunctionSection, GlobalSection, GlobalType, ImportSection,
    Instruction as I, MemorySection, Module, TableSection, TagSection, TypeSection, ValType,
};
use wasmparser::{FunctionBody, Operator, Parser, Payload};

use super::analyse::{self, Analysed};
use super::body::{Added, Body, LOOK};
use super::helpers;
use super::{FUEL, Kind, MAX_QUIET, PassError, REFUEL, SHARED_FUEL, unsupported};

/// Maximum cost of a function entry or loop iteration. An iteration through a thousand instructions
/// rarely runs all of them: the interpreter's main loop, for example.
const MAX_COST: u64 = 64;

/// Cost of a call that leaves an extension.
const LEAVING: i64 = 1;

/// Number of operators of an extension that one unit of fuel pays for: [`MAX_COST`] does not apply
/// to it.
const PER_UNIT: u64 = 16;

/// Returns the rewritten module.
pub(super) fn rewrite(
    module: &[u8],
    analysed: &Analysed,
    cut: &[bool],
) -> Result<Vec<u8>, PassError> {
    let imports = analysed.imports;
    // One more function is imported, which increases all other indices by one.
    let slow = analysed.functions.len() as u32 + 1;
    let kind = analysed.kind;
    let added = Added {
        fuel: match kind {
            Kind::Main => analysed.globals,
            Kind::Extension => analysed.imported_globals,
        },
        refuel: imports,
        slow,
        copy: slow + 1,
        fill: slow + 2,
    };
    let mut renumber = Renumber {
        imports,
        own_globals: (kind == Kind::Extension).then_some(analysed.imported_globals),
    };
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
    out.add(added, analysed.types, kind);
    Ok(out.finish())
}

const BROKEN: PassError = unsupported("its functions are not well formed");

fn refused(error: reencode::Error) -> PassError {
    PassError::of(error, "meter")
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
    /// Adds the meter's items after the existing ones.
    fn add(&mut self, added: Added, types: u32, kind: Kind) {
        let (refuel, slow, bulk) = (types, types + 1, types + 2);
        self.types.ty().function([], [ValType::I64]);
        self.types.ty().function([], []);
        self.types.ty().function([ValType::I32; 3], []);
        self.imports.import(REFUEL.0, REFUEL.1, EntityType::Function(refuel));
        self.functions.function(slow).function(bulk).function(bulk);
        let counter = GlobalType {
            val_type: ValType::I64,
            mutable: true,
            shared: false,
        };
        match kind {
            Kind::Main => {
                self.globals.global(counter, &ConstExpr::i64_const(0));
                self.exports.export(FUEL, ExportKind::Global, added.fuel);
            }
            Kind::Extension => {
                self.imports.import(SHARED_FUEL.0, SHARED_FUEL.1, counter);
            }
        }
        helpers::write(added, kind, &mut self.code);
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

/// Renumbers functions after the additional import.
#[derive(Clone, Copy)]
struct Renumber {
    imports: u32,
    /// The first global after an imported counter, if it is imported.
    own_globals: Option<u32>,
}

impl Renumber {
    fn is_extension(self) -> bool {
        self.own_globals.is_some()
    }
}

impl Reencode for Renumber {
    type Error = Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, reencode::Error> {
        Ok(index.wrapping_add(u32::from(index >= self.imports)))
    }

    fn global_index(&mut self, index: u32) -> Result<u32, reencode::Error> {
        let is_after = self.own_globals.is_some_and(|first| index >= first);
        Ok(index.wrapping_add(u32::from(is_after)))
    }
}

/// A body being rewritten.
struct Rewriting<'a> {
    renumber: Renumber,
    added: Added,
    facts: &'a analyse::Function,
    /// Number of frames.
    frames: usize,
    /// Index of the frame of the quiet loop around the operator, and an iteration's cost. Quiet
    /// loops are innermost, so there is at most one.
    quiet: Option<(usize, i64)>,
    /// Local that counts the iterations of quiet loops, if any.
    turns: Option<u32>,
}

impl<'a> Rewriting<'a> {
    fn of(renumber: Renumber, added: Added, facts: &'a analyse::Function) -> Self {
        Self {
            renumber,
            added,
            facts,
            frames: 1,
            quiet: None,
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
            out.look(self.cost(self.facts.cost, self.facts.outside));
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
                    self.frames += 1;
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
                        // Iterations are subtracted at the branch: if it is not taken, counting
                        // continues.
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
                    if let Some((_, cost)) = self.quiet {
                        self.take_turns(&mut out, cost);
                    }
                }
                Operator::Call { function_index }
                    if self.renumber.is_extension() && *function_index < self.renumber.imports =>
                {
                    out.look(LEAVING);
                }
                Operator::CallIndirect { .. } if self.renumber.is_extension() => {
                    out.look(LEAVING);
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
        if self.frames == 0 {
            Ok(out)
        } else {
            Err(BROKEN)
        }
    }

    /// A loop with calls or inner loops checks its fuel in every iteration. A quiet loop counts its
    /// iterations in a local, which are subtracted on exit, and traps after very many: a call of
    /// the host would cost it the registers, even if it is never made.
    fn begin_loop(&mut self, out: &mut Body, found: &analyse::Loop, ty: BlockType) {
        let cost = self.cost(found.cost, found.size);
        let outermost = self.frames as u32;
        self.frames += 1;
        let Some(turns) = self.turns.filter(|_| found.quiet) else {
            out.one(&I::Loop(ty));
            out.look(cost);
            return;
        };
        self.quiet = Some((outermost as usize, cost));
        out.all(&[I::I32Const(0), I::LocalSet(turns), I::Loop(ty)]);
        out.all(&[I::LocalGet(turns), I::I32Const(1), I::I32Add, I::LocalTee(turns)]);
        out.all(&[I::I32Const(max_turns(found.size)), I::I32GtU]);
        out.unlikely(&I::BrIf(outermost));
    }

    fn end(&mut self, out: &mut Body) -> Result<(), PassError> {
        self.frames = self.frames.checked_sub(1).ok_or(BROKEN)?;
        if self.frames == 0 && self.turns.is_some() {
            // The results are on the stack; quiet loops exit to the block that ends here.
            out.all(&[I::Return, I::End]);
            out.overrun();
        }
        out.one(&I::End);
        if let Some((_, cost)) = self.quiet.take_if(|(index, _)| *index == self.frames) {
            self.take_turns(out, cost);
        }
        Ok(())
    }

    fn take_turns(&self, out: &mut Body, cost: i64) {
        if let Some(turns) = self.turns {
            out.take_turns(turns, cost);
        }
    }

    /// Returns the cost of a check, which pays for code with this counted cost and size.
    fn cost(&self, counted: u64, size: u64) -> i64 {
        let least = cost(counted);
        if !self.renumber.is_extension() {
            return least;
        }
        least.max((size + LOOK).div_ceil(PER_UNIT).cast_signed())
    }

    /// Returns the cost of an iteration of the quiet loop that a branch leaves, if any.
    fn left(&self, depth: u32) -> Result<Option<i64>, PassError> {
        let target = self.frames.checked_sub(depth as usize + 1).ok_or(BROKEN)?;
        Ok(self.quiet.filter(|(index, _)| *index > target).map(|(_, cost)| cost))
    }

    /// Returns the depth of a label: the function's own is one deeper if there is an additional
    /// block.
    fn target(&self, depth: u32) -> Result<u32, PassError> {
        let target = self.frames.checked_sub(depth as usize + 1).ok_or(BROKEN)?;
        Ok(depth + u32::from(target == 0 && self.turns.is_some()))
    }
}

/// Returns the maximum number of iterations of a quiet loop with `size` operators each.
fn max_turns(size: u64) -> i32 {
    let turns = MAX_QUIET / (size + TURN);
    u32::try_from(turns).unwrap_or(u32::MAX - 1).cast_signed()
}

/// Number of operators that each iteration starts with.
const TURN: u64 = 7;

const fn cost(counted: u64) -> i64 {
    let most = if counted > MAX_COST {
        MAX_COST
    } else {
        counted
    };
    if most == 0 { 1 } else { most.cast_signed() }
}
