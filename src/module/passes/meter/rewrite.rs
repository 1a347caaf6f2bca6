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
use super::{FUEL, PassError, REFUEL, unsupported};

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
    /// Of each frame, whether it is a quiet loop.
    frames: Vec<bool>,
    /// The local in which quiet loops count.
    counter: u32,
}

impl<'a> Rewriting<'a> {
    fn of(renumber: Renumber, added: Added, facts: &'a analyse::Function) -> Self {
        Self {
            renumber,
            added,
            facts,
            frames: vec![false],
            counter: 0,
        }
    }

    fn body(mut self, source: &FunctionBody<'_>, cut: bool) -> Result<Body, PassError> {
        let mut locals = Vec::new();
        self.counter = self.facts.parameters;
        for local in source.get_locals_reader()? {
            let (count, ty) = local?;
            self.counter = self.counter.checked_add(count).ok_or(BROKEN)?;
            locals.push((count, self.renumber.val_type(ty).map_err(refused)?));
        }
        if self.facts.loops.iter().any(|found| found.quiet) {
            locals.push((1, ValType::I64));
        }
        let mut out = Body::new(self.added, locals);
        if cut {
            out.look(cost(self.facts.cost));
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
                    self.frames.push(false);
                }
                Operator::End => {
                    self.end(&mut out)?;
                    continue;
                }
                Operator::Br { relative_depth } if self.leaves(*relative_depth)? => {
                    self.put_back(&mut out);
                    out.one(&I::Br(relative_depth + 1));
                    continue;
                }
                Operator::BrIf { relative_depth } if self.leaves(*relative_depth)? => {
                    self.put_back(&mut out);
                    out.one(&I::BrIf(relative_depth + 1));
                    continue;
                }
                Operator::BrTable { targets } if self.in_quiet_loop() => {
                    let others = targets.targets().map(|t| self.target(t?));
                    let others: Vec<u32> = others.collect::<Result<_, PassError>>()?;
                    let default = self.target(targets.default())?;
                    let all = targets.targets().chain([Ok(targets.default())]);
                    let leaving = all.map(|t| self.leaves(t?)).collect::<Result<Vec<_>, _>>()?;
                    if leaving.contains(&true) {
                        self.put_back(&mut out);
                    }
                    out.one(&I::BrTable(others.into(), default));
                    continue;
                }
                Operator::Return if self.in_quiet_loop() => self.put_back(&mut out),
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

    /// A loop that calls, or has a loop inside, counts in the global. A quiet one counts in a local,
    /// and leaves to a loop around it when its fuel is used up: a call inside would cost it the
    /// registers.
    fn begin_loop(&mut self, out: &mut Body, found: &analyse::Loop, ty: BlockType) {
        let Added { fuel, slow, .. } = self.added;
        let counter = self.counter;
        self.frames.push(found.quiet);
        if !found.quiet {
            out.one(&I::Loop(ty));
            out.look(cost(found.cost));
            return;
        }
        out.all(&[I::GlobalGet(fuel), I::LocalSet(counter), I::Loop(ty)]);
        out.all(&[I::LocalGet(counter), I::I64Const(0), I::I64LtS]);
        out.unlikely(&I::If(BlockType::Empty));
        self.put_back(out);
        out.all(&[I::Call(slow), I::GlobalGet(fuel), I::LocalSet(counter), I::End]);
        out.all(&[I::Loop(ty), I::LocalGet(counter), I::I64Const(0), I::I64LtS]);
        out.unlikely(&I::BrIf(1));
        out.all(&[I::LocalGet(counter), I::I64Const(cost(found.cost))]);
        out.all(&[I::I64Sub, I::LocalSet(counter)]);
    }

    fn end(&mut self, out: &mut Body) -> Result<(), PassError> {
        out.one(&I::End);
        if self.frames.pop().ok_or(BROKEN)? {
            out.one(&I::End);
            self.put_back(out);
        }
        Ok(())
    }

    fn put_back(&self, out: &mut Body) {
        out.all(&[I::LocalGet(self.counter), I::GlobalSet(self.added.fuel)]);
    }

    /// Quiet loops are innermost: at most one is around.
    fn in_quiet_loop(&self) -> bool {
        self.frames.contains(&true)
    }

    /// Whether a branch leaves the quiet loop that it stands in.
    fn leaves(&self, depth: u32) -> Result<bool, PassError> {
        let target = (self.frames.len()).checked_sub(depth as usize + 1).ok_or(BROKEN)?;
        Ok(self.frames[target + 1..].contains(&true))
    }

    fn target(&self, depth: u32) -> Result<u32, PassError> {
        Ok(depth + u32::from(self.leaves(depth)?))
    }
}

const fn cost(counted: u64) -> i64 {
    let most = if counted > MAX_COST {
        MAX_COST
    } else {
        counted
    };
    if most == 0 { 1 } else { most.cast_signed() }
}
