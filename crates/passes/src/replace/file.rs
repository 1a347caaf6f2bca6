//! One file: parsed, and refused if functions of the Python module cannot be like it.

use std::collections::HashMap;

use wasm_encoder::Instruction;
use wasmparser::{
    ExternalKind, FuncType, FunctionBody, KnownCustom, Name, Operator, Parser, Payload, TypeRef,
    Validator, WasmFeatures,
};

use super::ReplaceError;
use crate::PassError;

/// Instructions that files may have: those of any processor, with the same results on each.
const FEATURES: WasmFeatures = WasmFeatures::WASM1
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::SIMD);

/// A parsed file.
pub(super) struct File<'a> {
    pub name: &'a str,
    pub types: Vec<FuncType>,
    pub imports: Vec<Import<'a>>,
    /// Types of the defined functions.
    pub functions: Vec<u32>,
    pub bodies: Vec<FunctionBody<'a>>,
    pub globals: Vec<Global>,
    /// Names of replaced functions, each with a defined function, counted from the first.
    pub exports: Vec<(&'a str, u32)>,
    /// Names of functions, for people.
    pub names: HashMap<u32, &'a str>,
}

/// An imported function.
pub(super) struct Import<'a> {
    pub name: &'a str,
    pub ty: u32,
    /// Whether it is the body that the file replaces.
    pub is_original: bool,
}

/// A global.
pub(super) enum Global {
    /// The address of memory of this size.
    State(u32),
    Constant(Instruction<'static>),
}

impl<'a> File<'a> {
    pub fn parse(name: &'a str, binary: &'a [u8]) -> Result<Self, PassError> {
        let mut file = Self {
            name,
            types: Vec::new(),
            imports: Vec::new(),
            functions: Vec::new(),
            bodies: Vec::new(),
            globals: Vec::new(),
            exports: Vec::new(),
            names: HashMap::new(),
        };
        for payload in Parser::new(0).parse_all(binary) {
            file.read(payload?)?;
        }
        let validated = Validator::new_with_features(FEATURES).validate_all(binary);
        validated.map_err(|source| ReplaceError::Invalid {
            file: name.to_owned(),
            source,
        })?;
        for import in file.imports.iter().filter(|import| import.is_original) {
            if !file.exports.iter().any(|(name, _)| *name == import.name) {
                return Err(file.refused("imports an original function that it does not replace"));
            }
        }
        if file.exports.is_empty() {
            return Err(file.refused("replaces no function"));
        }
        Ok(file)
    }

    fn read(&mut self, payload: Payload<'a>) -> Result<(), PassError> {
        match payload {
            Payload::TypeSection(section) => {
                for ty in section.into_iter_err_on_gc_types() {
                    self.types.push(ty?);
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    self.import(import.module, import.name, import.ty)?;
                }
            }
            Payload::FunctionSection(section) => {
                self.functions = section.into_iter().collect::<Result<_, _>>()?;
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    let global = global?;
                    let mut value = global.init_expr.get_operators_reader();
                    let constant = match value.read()? {
                        Operator::I32Const { value } => Some(Instruction::I32Const(value)),
                        Operator::I64Const { value } => Some(Instruction::I64Const(value)),
                        _ => None,
                    };
                    let constant = constant.filter(|_| !global.ty.mutable);
                    let constant = constant.ok_or(self.refused("has a global that may change"))?;
                    self.globals.push(Global::Constant(constant));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    let defined = export.index.checked_sub(self.imports.len() as u32);
                    let (ExternalKind::Func, Some(at)) = (export.kind, defined) else {
                        return Err(self.refused("exports something that it does not define"));
                    };
                    self.exports.push((export.name, at));
                }
            }
            Payload::CodeSectionEntry(body) => self.bodies.push(body),
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    for name in names {
                        if let Name::Function(functions) = name? {
                            for naming in functions {
                                let naming = naming?;
                                self.names.insert(naming.index, naming.name);
                            }
                        }
                    }
                }
            }
            Payload::Version { .. } | Payload::CodeSectionStart { .. } | Payload::End(_) => {}
            _ => return Err(self.refused("has a section of its own that is not supported")),
        }
        Ok(())
    }

    fn import(&mut self, module: &str, name: &'a str, ty: TypeRef) -> Result<(), PassError> {
        match (module, ty) {
            ("env", TypeRef::Memory(memory))
                if name == "memory"
                    && memory.initial == 0
                    && memory.maximum.is_none()
                    && !memory.memory64
                    && !memory.shared => {}
            ("module" | "original", TypeRef::Func(ty)) => self.imports.push(Import {
                name,
                ty,
                is_original: module == "original",
            }),
            ("state", TypeRef::Global(global)) if !global.mutable => {
                let size = name.parse().ok();
                let is_address = global.content_type == wasmparser::ValType::I32;
                let size = size.filter(|_| is_address);
                let size = size.ok_or(self.refused("imports state of an invalid size"))?;
                self.globals.push(Global::State(size));
            }
            _ => return Err(self.refused("imports something that does not exist")),
        }
        Ok(())
    }

    pub fn refused(&self, why: &'static str) -> PassError {
        ReplaceError::File {
            file: self.name.to_owned(),
            why,
        }
        .into()
    }

    pub fn differs(&self, function: &str, what: &'static str) -> PassError {
        ReplaceError::Function {
            file: self.name.to_owned(),
            function: function.to_owned(),
            what,
        }
        .into()
    }

    /// Returns the type with this index.
    pub fn ty(&self, ty: u32) -> Result<&FuncType, PassError> {
        self.types.get(ty as usize).ok_or_else(|| self.refused("has an unknown type"))
    }
}
