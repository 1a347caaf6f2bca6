//! Proves that no code in a metered module runs for long without a fuel check.
//!
//! The checker is independent of the meter: it knows the allowed sequences for counting, and not
//! how they are generated. It runs on every input of the compiler and rejects what it cannot prove.
//! It proves:
//!
//! * **Every loop checks its fuel, or ends.** A loop header is followed by a sequence that
//!   subtracts at least one unit and calls the host if the fuel is below zero; or by a sequence
//!   that counts iterations and traps before the loop exceeds its limit on operators.
//! * **Every call cycle checks its fuel.** Without the functions that begin with such a check,
//!   there are no call cycles, including indirect calls; and a call returns after a limited number
//!   of operators.
//! * **Fuel only decreases**, except when the host adds some: no other code writes to its counter,
//!   and iterations counted in a local are subtracted on every exit.
//! * **In an extension, every function and every loop begins with a check**, whose cost pays for
//!   the code up to the next; every call that leaves it follows one, too.
//! * **No instruction takes time given by an operand.** Memory is copied and filled in pieces, each
//!   after its own check; instructions on tables and other kinds of calls are rejected.

mod body;
mod calls;

use wasmparser::{
    BinaryReaderError, ConstExpr, ElementItems, ExternalKind, Operator, Parser, Payload, TypeRef,
    ValType, Validator, WasmFeatures,
};

use self::body::{Body, Named};

/// The metered module cannot be proved to check its fuel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The module is invalid or uses unsupported features.
    #[error("the metered module is not valid")]
    Invalid(#[from] BinaryReaderError),
    /// The module as a whole is rejected.
    #[error("the metered module cannot be proved to stop: {0}")]
    Module(&'static str),
    /// A function is rejected.
    #[error("the metered module cannot be proved to stop: function {function} {why}")]
    Function {
        /// Index of the function.
        function: u32,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Features that a module may use: those that its compiler generates, and that this checker covers.
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

/// Increased with every change of the rules for extensions.
pub(super) const EXTENSION_VERSION: u32 = 1;

/// Checks `module`.
///
/// # Errors
///
/// If that cannot be proved.
pub fn check(module: &[u8]) -> Result<(), CheckError> {
    validate(module)?;
    let found = Found::in_module(module, false)?;
    let named = found.named()?;
    check_found(module, found, named)
}

/// Checks an extension: it and any module that passes [`check`] stop together.
///
/// # Errors
///
/// If that cannot be proved.
pub fn check_extension(module: &[u8]) -> Result<(), CheckError> {
    validate(module)?;
    let found = Found::in_module(module, true)?;
    let named = found.named_in_extension()?;
    check_found(module, found, named)
}

fn validate(module: &[u8]) -> Result<(), CheckError> {
    Validator::new_with_features(FEATURES).validate_all(module)?;
    Ok(())
}

fn check_found(module: &[u8], found: Found, named: Named) -> Result<(), CheckError> {
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
    if found.is_extension && in_table.iter().any(|&index| index < found.imports) {
        return Err(CheckError::Module("an import can be called through a table"));
    }
    for &export in found.exports.iter().filter(|&&export| export >= found.imports) {
        if !functions[export as usize].looks {
            return Err(CheckError::Function {
                function: export,
                why: "is exported and does not look at the fuel",
            });
        }
    }
    // In an extension, every function begins with a check, so no call of one is part of a way.
    calls::check(&functions, &in_table)
}

/// Properties of the whole module.
#[derive(Default)]
struct Found {
    is_extension: bool,
    imports: u32,
    /// The function that adds fuel, with its type.
    refuel: Vec<(u32, u32)>,
    /// Types that this function may have.
    giving_types: Vec<u32>,
    /// For each global, whether it is suitable as the counter.
    counters: Vec<bool>,
    /// The imported counter of an extension.
    shared_counters: Vec<u32>,
    /// Exported globals, by name.
    exported_globals: Vec<(bool, u32)>,
    exports: Vec<u32>,
    /// Functions exported for extensions.
    linked: Vec<u32>,
    in_table: Vec<u32>,
}

/// Export name of the counter.
const FUEL: &str = "belljar.fuel";
/// Import that adds fuel.
const REFUEL: (&str, &str) = ("belljar", "refuel");
/// Module from which an extension imports the main module's exports, and the names of its state.
const MAIN: &str = "main";
const STACK_POINTER: &str = "belljar.stack_pointer";
/// Prefix of the export names of functions that only extensions call.
const LINKED: &str = "link:";

impl Found {
    fn in_module(module: &[u8], is_extension: bool) -> Result<Self, CheckError> {
        let mut found = Self {
            is_extension,
            ..Self::default()
        };
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
                                } else if is_extension
                                    && !(import.module == MAIN && import.name.starts_with(LINKED))
                                {
                                    return Err(CheckError::Module("it imports of the host"));
                                }
                                found.imports += 1;
                            }
                            TypeRef::Tag(_) => {}
                            TypeRef::Memory(_) | TypeRef::Table(_)
                                if is_extension && import.module == MAIN => {}
                            TypeRef::Global(ty) if is_extension && import.module == MAIN => {
                                let is_counter = import.name == FUEL;
                                if !is_counter && import.name != STACK_POINTER {
                                    return Err(CheckError::Module("it imports state"));
                                }
                                if is_counter {
                                    found.shared_counters.push(found.counters.len() as u32);
                                }
                                found.counters.push(ty.mutable && ty.content_type == ValType::I64);
                            }
                            _ => return Err(CheckError::Module("it imports state")),
                        }
                    }
                }
                Payload::TableSection(section) => {
                    if is_extension && section.count() > 0 {
                        return Err(OWN_STATE);
                    }
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
                        if is_extension && ty.mutable {
                            return Err(OWN_STATE);
                        }
                        found.counters.push(ty.mutable && ty.content_type == ValType::I64);
                        references(&global.init_expr, &mut found.in_table)?;
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        if is_extension && export.kind != ExternalKind::Func {
                            return Err(OWN_STATE);
                        }
                        match export.kind {
                            // They are called after a check by the extension.
                            ExternalKind::Func
                                if !is_extension && export.name.starts_with(LINKED) =>
                            {
                                found.linked.push(export.index);
                            }
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
                Payload::MemorySection(section) if is_extension && section.count() > 0 => {
                    return Err(OWN_STATE);
                }
                Payload::DataSection(section) if is_extension && section.count() > 0 => {
                    return Err(OWN_STATE);
                }
                Payload::StartSection { .. } => {
                    return Err(CheckError::Module("it has a start function"));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns the counter and the function that adds fuel. Each must exist once.
    fn named(&self) -> Result<Named, CheckError> {
        let refuel = self.refuel()?;
        let counters: Vec<u32> =
            self.exported_globals.iter().filter(|(is, _)| *is).map(|&(_, index)| index).collect();
        let [fuel] = counters[..] else {
            return Err(CheckError::Module("no counter is exported"));
        };
        let exported = self.exported_globals.iter().filter(|&&(_, index)| index == fuel).count();
        if exported != 1 || self.counters.get(fuel as usize) != Some(&true) {
            return Err(CheckError::Module("the counter is not what it should be"));
        }
        Ok(Named {
            fuel,
            refuel,
            leaving: None,
        })
    }

    /// Returns the function that adds fuel, which must exist once.
    fn refuel(&self) -> Result<u32, CheckError> {
        let [(refuel, ty)] = self.refuel[..] else {
            return Err(CheckError::Module("fuel does not come from one import"));
        };
        let mut exports = self.exports.iter().chain(&self.linked);
        if !self.giving_types.contains(&ty) || exports.any(|&export| export == refuel) {
            return Err(CheckError::Module("what gives fuel is not what it should be"));
        }
        Ok(refuel)
    }

    /// Does the same as [`Self::named`] for an extension, which imports the counter.
    fn named_in_extension(&self) -> Result<Named, CheckError> {
        let refuel = self.refuel()?;
        match self.shared_counters[..] {
            [fuel] if self.counters.get(fuel as usize) == Some(&true) => Ok(Named {
                fuel,
                refuel,
                leaving: Some(self.imports),
            }),
            _ => Err(CheckError::Module("the counter is not what it should be")),
        }
    }
}

/// All that an extension may change belongs to the main module, so that images have it.
const OWN_STATE: CheckError = CheckError::Module("it has state of its own");

/// Records the functions that a constant refers to.
fn references(value: &ConstExpr<'_>, found: &mut Vec<u32>) -> Result<(), CheckError> {
    for operator in value.get_operators_reader() {
        if let Operator::RefFunc { function_index } = operator? {
            found.push(function_index);
        }
    }
    Ok(())
}
