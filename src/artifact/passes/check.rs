//! Proves of a metered module that nothing in it runs for long without a look at its fuel.
//!
//! This is a second opinion: it knows the shapes in which a module may count, and nothing of how
//! they come about. It runs on what the compiler is given, every time; what it cannot prove it
//! refuses. What it proves:
//!
//! * **Every loop looks, or ends.** A header of a loop is followed by a sequence that takes at least one
//!   unit and goes to the host when the fuel is below zero; or by one that counts turns and traps when
//!   they make more operators than the loop may run.
//! * **Every round of calls looks.** Without the functions that begin with such a sequence, no calls
//!   go round, tables included; and a call comes back after a bounded number of operators.
//! * **Fuel only shrinks**, but where the host gives more: nothing else writes to its counter, and the
//!   turns that a loop counts in a local are taken on every way out.
//! * **Nothing takes as long as it is told to.** Memory is copied and filled in pieces, each behind a
//!   look of its own; instructions that work on tables or call in other ways are not there.

mod body;
mod calls;

use wasmparser::{
    BinaryReaderError, ConstExpr, ElementItems, ExternalKind, Operator, Parser, Payload, TypeRef,
    ValType, Validator, WasmFeatures,
};

use self::body::{Body, Named};

/// The metered module cannot be proved to look at its fuel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// It is no module, or uses what nobody has thought about.
    #[error("the metered module is not valid")]
    Invalid(#[from] BinaryReaderError),
    /// Something is wrong with it as a whole.
    #[error("the metered module cannot be shown to stop: {0}")]
    Module(&'static str),
    /// Something is wrong in one function.
    #[error("the metered module cannot be shown to stop: function {function} {why}")]
    Function {
        /// Its index.
        function: u32,
        /// What is wrong in it.
        why: &'static str,
    },
}

/// What a module may use: what its compiler makes, and what somebody has thought about here.
const FEATURES: WasmFeatures = WasmFeatures::MVP
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::BULK_MEMORY_OPT)
    .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
    .union(WasmFeatures::EXCEPTIONS)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::MUTABLE_GLOBAL)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::SIMD);

/// Checks `module`.
pub(super) fn check(module: &[u8]) -> Result<(), CheckError> {
    Validator::new_with_features(FEATURES).validate_all(module)?;
    let found = Found::in_module(module)?;
    let named = found.named()?;
    let mut functions: Vec<Body> = (0..found.imports).map(|_| Body::default()).collect();
    let mut slow = None;
    let mut bodies = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::CodeSectionEntry(body) = payload? {
            let index = found.imports + bodies.len() as u32;
            if body::asks_for_fuel(&body, named)? {
                slow = Some(index);
            }
            bodies.push(body);
        }
    }
    let slow = slow.ok_or(CheckError::Module("nothing asks for fuel"))?;
    for (at, body) in bodies.iter().enumerate() {
        let function = found.imports + at as u32;
        functions.push(if function == slow {
            Body::default()
        } else {
            Body::check(body, named, slow, function)?
        });
    }
    let mut in_table = found.in_table;
    in_table.extend(functions.iter().flat_map(|body| &body.references));
    if in_table.contains(&named.refuel) {
        return Err(CheckError::Module("what gives fuel can be called through a table"));
    }
    for &export in found.exports.iter().filter(|&&export| export >= found.imports) {
        if !functions[export as usize].looks {
            return Err(CheckError::Function {
                function: export,
                why: "is exported and does not look at the fuel",
            });
        }
    }
    calls::check(&functions, &in_table)
}

/// What concerns the module as a whole.
#[derive(Default)]
struct Found {
    imports: u32,
    /// The function that gives fuel, and its type.
    refuel: Vec<(u32, u32)>,
    /// Types of the form that it must have.
    giving_types: Vec<u32>,
    /// Globals by index: whether one is a counter as it must be.
    counters: Vec<bool>,
    /// Exported globals, by name.
    exported_globals: Vec<(bool, u32)>,
    exports: Vec<u32>,
    in_table: Vec<u32>,
}

/// The name under which the counter is exported.
const FUEL: &str = "belljar.fuel";
/// Where more fuel comes from.
const REFUEL: (&str, &str) = ("belljar", "refuel");

impl Found {
    fn in_module(module: &[u8]) -> Result<Self, CheckError> {
        let mut found = Self::default();
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    for (index, ty) in section.into_iter_err_on_gc_types().enumerate() {
                        let ty = ty?;
                        if ty.params().is_empty() && ty.results() == [ValType::I64] {
                            found.giving_types.push(index as u32);
                        }
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        match import.ty {
                            TypeRef::Func(ty) => {
                                if (import.module, import.name) == REFUEL {
                                    found.refuel.push((found.imports, ty));
                                }
                                found.imports += 1;
                            }
                            TypeRef::Tag(_) => {}
                            _ => return Err(CheckError::Module("it imports state")),
                        }
                    }
                }
                Payload::TableSection(section) => {
                    for table in section {
                        if let wasmparser::TableInit::Expr(value) = table?.init {
                            references(&value, &mut found.in_table)?;
                        }
                    }
                }
                Payload::GlobalSection(section) => {
                    for global in section {
                        let global = global?;
                        let ty = global.ty;
                        found.counters.push(ty.mutable && ty.content_type == ValType::I64);
                        references(&global.init_expr, &mut found.in_table)?;
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        match export.kind {
                            ExternalKind::Func => found.exports.push(export.index),
                            ExternalKind::Global => {
                                found.exported_globals.push((export.name == FUEL, export.index));
                            }
                            _ => {}
                        }
                    }
                }
                Payload::ElementSection(section) => {
                    for element in section {
                        match element?.items {
                            ElementItems::Functions(functions) => {
                                for function in functions {
                                    found.in_table.push(function?);
                                }
                            }
                            ElementItems::Expressions(_, values) => {
                                for value in values {
                                    references(&value?, &mut found.in_table)?;
                                }
                            }
                        }
                    }
                }
                Payload::StartSection { .. } => {
                    return Err(CheckError::Module("it has a start function"));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// The counter and the function that gives fuel, each of which is there once.
    fn named(&self) -> Result<Named, CheckError> {
        let [(refuel, ty)] = self.refuel[..] else {
            return Err(CheckError::Module("fuel does not come from one import"));
        };
        if !self.giving_types.contains(&ty) || self.exports.contains(&refuel) {
            return Err(CheckError::Module("what gives fuel is not what it should be"));
        }
        let counters: Vec<u32> =
            self.exported_globals.iter().filter(|(is, _)| *is).map(|&(_, index)| index).collect();
        let [fuel] = counters[..] else {
            return Err(CheckError::Module("no counter is exported"));
        };
        let exported = self.exported_globals.iter().filter(|&&(_, index)| index == fuel).count();
        if exported != 1 || self.counters.get(fuel as usize) != Some(&true) {
            return Err(CheckError::Module("the counter is not what it should be"));
        }
        Ok(Named { fuel, refuel })
    }
}

/// Notes the functions whose references a constant holds.
fn references(value: &ConstExpr<'_>, found: &mut Vec<u32>) -> Result<(), CheckError> {
    for operator in value.get_operators_reader() {
        if let Operator::RefFunc { function_index } = operator? {
            found.push(function_index);
        }
    }
    Ok(())
}
