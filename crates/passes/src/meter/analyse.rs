//! Analyses all functions before any is rewritten.

use wasmparser::{
    BlockType, ConstExpr, ElementItems, ExternalKind, FunctionBody, Operator, Parser, Payload,
    TypeRef,
};

use super::body::LOOK;
use super::{Kind, PassError, unsupported};
use crate::link::LINKED;

/// A module as a graph of function calls.
#[derive(Default)]
pub(super) struct Analysed {
    pub kind: Kind,
    /// Number of imported functions, which come first in the index space.
    pub imports: u32,
    pub types: u32,
    pub globals: u32,
    /// Number of imported globals, which come first in the index space.
    pub imported_globals: u32,
    /// All functions by index; imported ones have no body.
    pub functions: Vec<Function>,
}

/// One function.
#[derive(Default)]
pub(super) struct Function {
    /// Number of parameters.
    pub parameters: u32,
    /// Whether it can be called through a table.
    pub in_table: bool,
    pub exported: bool,
    /// Its direct callees, once per call.
    pub callees: Vec<u32>,
    /// Number of indirect calls.
    pub indirect_calls: u32,
    /// Number of operators in its body.
    pub size: u64,
    /// Cost of the code outside of loops.
    pub cost: u64,
    /// Number of operators outside of loops, in an extension with its calls' checks.
    pub outside: u64,
    /// Its loops, in the order of their headers.
    pub loops: Vec<Loop>,
}

/// One loop.
pub(super) struct Loop {
    /// Cost of one iteration, without inner loops.
    pub cost: u64,
    /// Number of operators per rewritten iteration, without counting, but in an extension with the
    /// checks before calls.
    pub size: u64,
    /// Whether it is innermost, makes no calls, and its iterations can be subtracted on every exit.
    pub quiet: bool,
}

pub(super) fn analyse(module: &[u8], kind: Kind) -> Result<Analysed, PassError> {
    let mut found = Analysed {
        kind,
        ..Analysed::default()
    };
    let mut parameters = Vec::new();
    let mut next = 0;
    let mut in_table = Vec::new();
    let mut exported = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::TypeSection(section) => {
                found.types = section.count();
                for ty in section.into_iter_err_on_gc_types() {
                    parameters.push(ty?.params().len() as u32);
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    match import?.ty {
                        TypeRef::Func(ty) => found.push(&parameters, ty)?,
                        TypeRef::Global(_) => {
                            found.globals += 1;
                            found.imported_globals += 1;
                        }
                        _ => {}
                    }
                }
                found.imports = found.functions.len() as u32;
            }
            Payload::FunctionSection(section) => {
                for ty in section {
                    found.push(&parameters, ty?)?;
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    if let wasmparser::TableInit::Expr(value) = table?.init {
                        functions_of(&value, &mut in_table)?;
                    }
                }
            }
            Payload::GlobalSection(section) => {
                found.globals += section.count();
                for global in section {
                    functions_of(&global?.init_expr, &mut in_table)?;
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    // The host does not call what is exported for extensions.
                    if export.kind == ExternalKind::Func && !export.name.starts_with(LINKED) {
                        exported.push(export.index);
                    }
                }
            }
            Payload::ElementSection(section) => {
                for element in section {
                    match element?.items {
                        ElementItems::Functions(functions) => {
                            for function in functions {
                                in_table.push(function?);
                            }
                        }
                        ElementItems::Expressions(_, values) => {
                            for value in values {
                                functions_of(&value?, &mut in_table)?;
                            }
                        }
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let index = found.imports as usize + next;
                next += 1;
                // Calls of these leave an extension.
                let leaving = (kind == Kind::Extension).then_some(found.imports);
                let function = found.functions.get_mut(index).ok_or(NO_SUCH_FUNCTION)?;
                function.look_at(&body, leaving, &mut in_table)?;
            }
            _ => {}
        }
    }
    for index in in_table {
        found.at(index)?.in_table = true;
    }
    for index in exported {
        found.at(index)?.exported = true;
    }
    let count = found.functions.len();
    if found.functions.iter().flat_map(|f| &f.callees).any(|&callee| callee as usize >= count) {
        return Err(NO_SUCH_FUNCTION);
    }
    Ok(found)
}

const NO_SUCH_FUNCTION: PassError = unsupported("it names a function that it does not have");

impl Analysed {
    fn push(&mut self, parameters: &[u32], ty: u32) -> Result<(), PassError> {
        let parameters = parameters.get(ty as usize);
        self.functions.push(Function {
            parameters: *parameters.ok_or(unsupported("it names a type that it does not have"))?,
            ..Function::default()
        });
        Ok(())
    }

    fn at(&mut self, index: u32) -> Result<&mut Function, PassError> {
        self.functions.get_mut(index as usize).ok_or(NO_SUCH_FUNCTION)
    }
}

/// Records the functions that a constant refers to.
fn functions_of(value: &ConstExpr<'_>, found: &mut Vec<u32>) -> Result<(), PassError> {
    for operator in value.get_operators_reader() {
        if let Operator::RefFunc { function_index } = operator? {
            found.push(function_index);
        }
    }
    Ok(())
}

impl Function {
    fn look_at(
        &mut self,
        body: &FunctionBody<'_>,
        leaving: Option<u32>,
        in_table: &mut Vec<u32>,
    ) -> Result<(), PassError> {
        let mut frames = vec![Frame {
            is_loop: false,
            takes_values: true,
        }];
        // The loops around the operator, and the indices of their frames.
        let mut around: Vec<usize> = Vec::new();
        let mut loops: Vec<usize> = Vec::new();
        for operator in body.get_operators_reader()? {
            let operator = operator?;
            self.size += 1;
            let cost = u64::from(!is_free(&operator));
            let leaves = leaving.is_some_and(|imports| match operator {
                Operator::Call { function_index } => function_index < imports,
                Operator::CallIndirect { .. } => true,
                _ => false,
            });
            let check = if leaves { LOOK } else { 0 };
            if let Some(inner) = around.last().map(|&inner| &mut self.loops[inner]) {
                inner.cost += cost;
                inner.size += check;
                // A branch out of the loop becomes a conditional skip.
                inner.size += if matches!(operator, Operator::BrIf { .. }) {
                    3
                } else {
                    1
                };
            } else {
                self.cost += cost;
                self.outside += 1 + check;
            }
            match operator {
                Operator::Loop { blockty } => {
                    if let Some(&outer) = around.last() {
                        self.loops[outer].quiet = false;
                    }
                    around.push(self.loops.len());
                    self.loops.push(Loop {
                        cost: 0,
                        size: 0,
                        quiet: leaving.is_none(),
                    });
                    loops.push(frames.len());
                    frames.push(Frame {
                        is_loop: true,
                        takes_values: matches!(blockty, BlockType::FuncType(_)),
                    });
                }
                Operator::Block { blockty } | Operator::If { blockty } => {
                    frames.push(Frame::block(blockty));
                }
                Operator::TryTable { ref try_table } => {
                    frames.push(Frame::block(try_table.ty));
                    self.is_loud(&around);
                }
                Operator::End => {
                    let is_loop = frames.pop().is_some_and(|frame| frame.is_loop);
                    if is_loop {
                        around.pop();
                        loops.pop();
                    }
                }
                Operator::Call { function_index } => {
                    self.callees.push(function_index);
                    self.is_loud(&around);
                }
                Operator::CallIndirect { .. } => {
                    self.indirect_calls += 1;
                    self.is_loud(&around);
                }
                Operator::MemoryCopy { .. }
                | Operator::MemoryFill { .. }
                | Operator::MemoryGrow { .. }
                | Operator::Throw { .. }
                | Operator::ThrowRef => self.is_loud(&around),
                // Every exit of a quiet loop must be a place where its iterations can be
                // subtracted.
                Operator::BrIf { relative_depth }
                    if left(&frames, &loops, relative_depth)
                        .is_some_and(|target| target.takes_values) =>
                {
                    self.is_loud(&around);
                }
                Operator::BrTable { ref targets } => {
                    for depth in targets.targets().chain([Ok(targets.default())]) {
                        if left(&frames, &loops, depth?).is_some() {
                            self.is_loud(&around);
                        }
                    }
                }
                Operator::RefFunc { function_index } => in_table.push(function_index),
                _ if takes_what_it_is_given(&operator) => {
                    return Err(unsupported("it has an instruction that may take any time"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_loud(&mut self, around: &[usize]) {
        if let Some(&inner) = around.last() {
            self.loops[inner].quiet = false;
        }
    }
}

/// A block, a loop, or the function.
#[derive(Clone, Copy)]
struct Frame {
    is_loop: bool,
    /// Whether a branch to its label may carry values.
    takes_values: bool,
}

impl Frame {
    fn block(ty: BlockType) -> Self {
        Self {
            is_loop: false,
            takes_values: ty != BlockType::Empty,
        }
    }
}

/// Returns the target of a branch that leaves the innermost loop.
fn left(frames: &[Frame], loops: &[usize], depth: u32) -> Option<Frame> {
    let innermost = *loops.last()?;
    let target = frames.len().checked_sub(depth as usize + 1)?;
    (target < innermost).then(|| frames[target])
}

/// Instructions without an effect of their own.
fn is_free(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::TryTable { .. }
            | Operator::Else
            | Operator::End
            | Operator::Nop
            | Operator::Drop
            | Operator::Return
            | Operator::Unreachable
    )
}

/// Instructions that exit in other ways, change tables, or take time given by an operand. C
/// compilers do not generate them for ordinary code.
fn takes_what_it_is_given(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::ReturnCallRef { .. }
            | Operator::CallRef { .. }
            | Operator::MemoryInit { .. }
            | Operator::DataDrop { .. }
            | Operator::TableInit { .. }
            | Operator::TableCopy { .. }
            | Operator::TableFill { .. }
            | Operator::TableGrow { .. }
            | Operator::TableSet { .. }
            | Operator::ElemDrop { .. }
    )
}
