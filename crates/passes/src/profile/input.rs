//! The parsed module.

use std::collections::HashMap;
use std::ops::Range;

use wasmparser::{
    ElementItems, ElementKind, FuncType, FunctionBody, KnownCustom, Name, Operator, Parser,
    Payload, TypeRef,
};

use super::{BROKEN, unsupported};
use crate::PassError;

pub(crate) struct Input<'a> {
    pub module: &'a [u8],
    pub types: Vec<FuncType>,
    /// Number of imported functions.
    pub imports: u32,
    /// Type of each function, including the imported ones.
    type_of: Vec<u32>,
    /// Bodies of the functions that are not imported.
    pub bodies: Vec<FunctionBody<'a>>,
    names: HashMap<u32, &'a str>,
    /// Functions in the table, by slot.
    pub slots: HashMap<u32, u32>,
}

impl<'a> Input<'a> {
    pub fn parse(module: &'a [u8]) -> Result<Self, PassError> {
        let mut input = Self {
            module,
            types: Vec::new(),
            imports: 0,
            type_of: Vec::new(),
            bodies: Vec::new(),
            names: HashMap::new(),
            slots: HashMap::new(),
        };
        for payload in Parser::new(0).parse_all(module) {
            input.read(payload?)?;
        }
        let is_known = |index: &u32| (*index as usize) < input.type_of.len();
        if input.imports as usize + input.bodies.len() != input.type_of.len()
            || !input.slots.values().all(is_known)
            || input.type_of.iter().any(|&ty| ty as usize >= input.types.len())
        {
            return Err(BROKEN);
        }
        Ok(input)
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
                    match import?.ty {
                        TypeRef::Func(ty) => self.type_of.push(ty),
                        TypeRef::Table(_) => return Err(unsupported("its table is imported")),
                        _ => {}
                    }
                }
                self.imports = self.type_of.len() as u32;
            }
            Payload::FunctionSection(section) => {
                for ty in section {
                    self.type_of.push(ty?);
                }
            }
            Payload::TableSection(section) if section.count() > 1 => {
                return Err(unsupported("it has several tables"));
            }
            Payload::ElementSection(section) => {
                for element in section {
                    let element = element?;
                    let ElementKind::Active { offset_expr, .. } = &element.kind else {
                        return Err(unsupported("its table may change"));
                    };
                    let (Operator::I32Const { value }, ElementItems::Functions(functions)) =
                        (offset_expr.get_operators_reader().read()?, element.items)
                    else {
                        return Err(unsupported("its table is filled with expressions"));
                    };
                    for (at, function) in (0..).zip(functions) {
                        let slot = value.cast_unsigned().checked_add(at).ok_or(BROKEN)?;
                        self.slots.insert(slot, function?);
                    }
                }
            }
            Payload::CodeSectionEntry(body) => self.bodies.push(body),
            Payload::CustomSection(section) if section.name().starts_with("metadata.code.") => {
                return Err(unsupported("it has hints at places in its code"));
            }
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
            _ => {}
        }
        Ok(())
    }

    /// Iterates over the indices of the functions that are not imported.
    pub fn defined(&self) -> Range<u32> {
        self.imports..self.type_of.len() as u32
    }

    /// Returns the name of a function, or an empty string.
    pub fn name(&self, function: u32) -> &'a str {
        self.names.get(&function).copied().unwrap_or_default()
    }

    pub fn ty(&self, function: u32) -> Result<&FuncType, PassError> {
        let ty = *self.type_of.get(function as usize).ok_or(BROKEN)?;
        self.types.get(ty as usize).ok_or(BROKEN)
    }

    /// Returns the body of a function, or `None` if it is imported.
    pub fn body(&self, function: u32) -> Option<&FunctionBody<'a>> {
        self.bodies.get(function.checked_sub(self.imports)? as usize)
    }

    /// Returns the number of bytes of a function's operators, or `None` if it is imported. Calls
    /// count as four bytes: their indices, and so their lengths, differ between tiers.
    pub fn size(&self, function: u32) -> Result<Option<usize>, PassError> {
        if self.body(function).is_none() {
            return Ok(None);
        }
        let lengths = self.operators(function)?.map(|operator| {
            Ok(match operator? {
                (
                    Operator::Call { .. }
                    | Operator::CallIndirect { .. }
                    | Operator::RefFunc { .. },
                    _,
                ) => 4,
                (_, bytes) => bytes.len(),
            })
        });
        lengths.sum::<Result<_, PassError>>().map(Some)
    }

    /// Returns the operators of a function, each with its bytes.
    pub fn operators(
        &self,
        function: u32,
    ) -> Result<
        impl Iterator<Item = Result<(Operator<'a>, &'a [u8]), PassError>> + use<'a>,
        PassError,
    > {
        let body = self.body(function).ok_or(BROKEN)?;
        let module = self.module;
        let mut reader = body.get_operators_reader()?;
        Ok(std::iter::from_fn(move || {
            (!reader.eof()).then(|| {
                let (operator, start) = reader.read_with_offset()?;
                let range = usize::try_from(start)
                    .ok()
                    .zip(usize::try_from(reader.original_position()).ok());
                let bytes = range.and_then(|(start, end)| module.get(start..end));
                Ok((operator, bytes.ok_or(BROKEN)?))
            })
        }))
    }
}
