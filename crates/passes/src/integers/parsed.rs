//! Parses the module, and writes it back with changes.

use std::collections::{BTreeMap, HashMap};

use wasm_encoder::{CodeSection, Encode, FunctionSection, Instruction, RawSection};
use wasmparser::{
    DataKind, FuncType, FunctionBody, KnownCustom, Name, Operator, Parser, Payload,
    TypeSectionReader, ValType,
};

use super::IntegersError;
use crate::imported_functions;

/// A parsed module.
pub(super) struct Parsed<'a> {
    module: &'a [u8],
    /// For each type, the number of `i32` parameters and whether it returns an `i32`; `None` for
    /// other types.
    types: Vec<Option<(usize, bool)>>,
    /// Signature of each type.
    signatures: Vec<FuncType>,
    imports: u32,
    /// Types of the defined functions.
    functions: Vec<u32>,
    bodies: Vec<FunctionBody<'a>>,
    names: HashMap<&'a str, Vec<u32>>,
    /// Address and bytes of each data segment.
    data: Vec<(u32, &'a [u8])>,
}

impl<'a> Parsed<'a> {
    pub(super) fn new(module: &'a [u8]) -> Result<Self, IntegersError> {
        let mut parsed = Self {
            module,
            types: Vec::new(),
            signatures: Vec::new(),
            imports: 0,
            functions: Vec::new(),
            bodies: Vec::new(),
            names: HashMap::new(),
            data: Vec::new(),
        };
        for payload in Parser::new(0).parse_all(module) {
            parsed.read(payload?)?;
        }
        Ok(parsed)
    }

    fn read(&mut self, payload: Payload<'a>) -> Result<(), IntegersError> {
        match payload {
            Payload::TypeSection(section) => {
                for ty in section.into_iter_err_on_gc_types() {
                    let ty = ty?;
                    let plain = |types: &[ValType]| types.iter().all(|t| *t == ValType::I32);
                    let known = plain(ty.params()) && plain(ty.results()) && ty.results().len() < 2;
                    self.types.push(known.then(|| (ty.params().len(), !ty.results().is_empty())));
                    self.signatures.push(ty);
                }
            }
            Payload::ImportSection(section) => self.imports = imported_functions(section)?,
            Payload::FunctionSection(section) => {
                self.functions = section.into_iter().collect::<Result<_, _>>()?;
            }
            Payload::CodeSectionEntry(body) => self.bodies.push(body),
            Payload::DataSection(section) => {
                for segment in section {
                    let segment = segment?;
                    if let DataKind::Active { offset_expr, .. } = segment.kind
                        && let Operator::I32Const { value } =
                            offset_expr.get_operators_reader().read()?
                    {
                        self.data.push((value.cast_unsigned(), segment.data));
                    }
                }
            }
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    for name in names {
                        let Name::Function(functions) = name? else {
                            continue;
                        };
                        for naming in functions {
                            let naming = naming?;
                            self.names.entry(naming.name).or_default().push(naming.index);
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the index of the function with this unique name.
    pub(super) fn function(&self, name: &'static str) -> Result<u32, IntegersError> {
        match self.named(name) {
            [index] if *index >= self.imports => Ok(*index),
            _ => Err(IntegersError::Function(name)),
        }
    }

    /// Returns the indices of all functions with this name.
    pub(super) fn named(&self, name: &str) -> &[u32] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the function with this name that takes this many `i32` and returns one.
    pub(super) fn taking(
        &self,
        name: &'static str,
        parameters: usize,
    ) -> Result<u32, IntegersError> {
        self.of_type(name, parameters, true)
    }

    pub(super) fn of_type(
        &self,
        name: &'static str,
        parameters: usize,
        result: bool,
    ) -> Result<u32, IntegersError> {
        let index = self.function(name)?;
        let ty = self.defined(index).and_then(|at| self.functions.get(at));
        match ty.and_then(|ty| self.types.get(*ty as usize)) {
            Some(Some(found)) if *found == (parameters, result) => Ok(index),
            _ => Err(IntegersError::Other {
                function: name,
                what: "it has another type",
            }),
        }
    }

    /// Returns the body of the function `index`, and its number of parameters.
    pub(super) fn code(&self, index: u32) -> Option<(&FunctionBody<'a>, usize)> {
        let at = self.defined(index)?;
        let ty = self.signatures.get(*self.functions.get(at)? as usize)?;
        Some((self.bodies.get(at)?, ty.params().len()))
    }

    /// Returns the instructions of the function `index`, and where they are.
    pub(super) fn operators(&self, index: u32) -> Result<Vec<(Operator<'a>, u64)>, IntegersError> {
        let missing = IntegersError::Missing("body of a function");
        let (body, _) = self.code(index).ok_or(missing)?;
        Ok(body.get_operators_reader()?.into_iter_with_offsets().collect::<Result<_, _>>()?)
    }

    /// Returns the bytes at `range` of the module.
    pub(super) fn bytes(&self, range: std::ops::Range<u64>) -> Option<&'a [u8]> {
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        self.module.get(range)
    }

    /// Returns the address of `bytes` in the data, if it is unique.
    pub(super) fn data(&self, bytes: &[u8]) -> Option<(u32, &'a [u8])> {
        let mut places = self.data.iter().flat_map(|(start, data)| {
            data.windows(bytes.len())
                .enumerate()
                .filter(|(_, window)| *window == bytes)
                .map(|(at, _)| (start.wrapping_add(at as u32), &data[at..]))
        });
        let place = places.next()?;
        places.next().is_none().then_some(place)
    }

    fn defined(&self, index: u32) -> Option<usize> {
        index.checked_sub(self.imports).map(|at| at as usize)
    }
}

/// The changes of a module.
pub(super) struct Changes<'p, 'a> {
    parsed: &'p Parsed<'a>,
    /// Replaced code: ranges in the module, with their replacements, by function.
    spliced: BTreeMap<u32, Vec<Splice>>,
    /// Functions with new bodies, by index.
    replaced: BTreeMap<u32, Vec<u8>>,
    added: Vec<Added>,
    /// Types that the original module does not have.
    added_types: Vec<FuncType>,
}

/// Copies of a function, by index: the original, and the changed one.
#[derive(Clone, Copy)]
pub(super) struct Copies {
    pub was: u32,
    pub changed: u32,
}

struct Splice {
    range: std::ops::Range<u64>,
    with: Vec<u8>,
}

struct Added {
    ty: u32,
    body: Body,
}

enum Body {
    New(Vec<u8>),
    /// The body of the function with this index, as it would have been.
    Moved(u32),
}

impl<'p, 'a> Changes<'p, 'a> {
    pub(super) fn new(parsed: &'p Parsed<'a>) -> Self {
        Self {
            parsed,
            spliced: BTreeMap::new(),
            replaced: BTreeMap::new(),
            added: Vec::new(),
            added_types: Vec::new(),
        }
    }

    /// Adds a function that takes `i32`s and returns one or nothing. Returns its index.
    pub(super) fn add(
        &mut self,
        parameters: &[()],
        result: bool,
        body: wasm_encoder::Function,
    ) -> Result<u32, IntegersError> {
        let wanted = Some((parameters.len(), result));
        let ty = self.parsed.types.iter().position(|ty| *ty == wanted);
        let ty = ty.ok_or(IntegersError::Missing("function of the type that is added"))?;
        Ok(self.push(ty as u32, Body::New(body.into_raw_body())))
    }

    /// Adds a function of any type. Returns its index.
    pub(super) fn add_of_type(&mut self, ty: FuncType, body: wasm_encoder::Function) -> u32 {
        let ty = self.ty(ty);
        self.push(ty, Body::New(body.into_raw_body()))
    }

    /// Returns the index of a type, which is added if it is missing.
    pub(super) fn ty(&mut self, ty: FuncType) -> u32 {
        let mut types = self.parsed.signatures.iter().chain(&self.added_types);
        let at = types.position(|known| *known == ty).unwrap_or_else(|| {
            self.added_types.push(ty);
            self.parsed.signatures.len() + self.added_types.len() - 1
        });
        at as u32
    }

    /// Replaces the function `index` by the body that `body` builds around the original, which gets
    /// a new index.
    pub(super) fn wrap(
        &mut self,
        index: u32,
        body: impl FnOnce(u32) -> wasm_encoder::Function,
    ) -> Result<(), IntegersError> {
        let at = self.parsed.defined(index).and_then(|at| self.parsed.functions.get(at));
        let ty = *at.ok_or(IntegersError::Missing("function that is wrapped"))?;
        let inner = self.push(ty, Body::Moved(index));
        self.replaced.insert(index, body(inner).into_raw_body());
        Ok(())
    }

    /// Adds a copy of the function `index`, including its changes. The function itself is then
    /// unchanged.
    pub(super) fn copy_changed(&mut self, index: u32) -> Result<u32, IntegersError> {
        let (ty, body) = self.as_it_was(index)?;
        self.replaced.insert(index, body);
        Ok(self.push(ty, Body::Moved(index)))
    }

    /// Adds two copies of the function `index`, which then gets another body.
    pub(super) fn both(&mut self, index: u32) -> Result<Copies, IntegersError> {
        let (ty, was) = self.as_it_was(index)?;
        Ok(Copies {
            was: self.push(ty, Body::New(was)),
            changed: self.push(ty, Body::Moved(index)),
        })
    }

    /// Replaces the body of the function `index`.
    pub(super) fn replace(&mut self, index: u32, body: wasm_encoder::Function) {
        self.replaced.insert(index, body.into_raw_body());
    }

    fn as_it_was(&self, index: u32) -> Result<(u32, Vec<u8>), IntegersError> {
        let missing = || IntegersError::Missing("function that is copied");
        let at = self.parsed.defined(index).ok_or_else(missing)?;
        let ty = *self.parsed.functions.get(at).ok_or_else(missing)?;
        let body = self.parsed.bodies.get(at).ok_or_else(missing)?;
        Ok((ty, self.parsed.bytes(body.range()).ok_or_else(missing)?.to_vec()))
    }

    /// Replaces code within a function.
    pub(super) fn splice(&mut self, index: u32, range: std::ops::Range<u64>, with: Vec<u8>) {
        self.spliced.entry(index).or_default().push(Splice { range, with });
    }

    /// Replaces every instruction of a function that `is` accepts. Returns how many it replaced.
    pub(super) fn replace_each(
        &mut self,
        index: u32,
        is: impl Fn(&Operator<'_>) -> bool,
        with: &Instruction<'_>,
    ) -> Result<usize, IntegersError> {
        let mut count = 0;
        for pair in self.parsed.operators(index)?.windows(2) {
            if let [(operator, from), (_, to)] = pair
                && is(operator)
            {
                let mut code = Vec::new();
                with.encode(&mut code);
                self.splice(index, *from..*to, code);
                count += 1;
            }
        }
        Ok(count)
    }

    fn push(&mut self, ty: u32, body: Body) -> u32 {
        self.added.push(Added { ty, body });
        self.parsed.imports + (self.parsed.functions.len() + self.added.len()) as u32 - 1
    }

    /// Writes the changed module.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, IntegersError> {
        for splices in self.spliced.values_mut() {
            splices.sort_by_key(|splice| splice.range.start);
        }
        let mut module = wasm_encoder::Module::new();
        let mut code_written = false;
        for payload in Parser::new(0).parse_all(self.parsed.module) {
            let payload = payload?;
            match &payload {
                Payload::TypeSection(types) if !self.added_types.is_empty() => {
                    let data = self.types(types)?;
                    module.section(&RawSection { id: 1, data: &data });
                    continue;
                }
                Payload::FunctionSection(_) => {
                    let mut section = FunctionSection::new();
                    let added = self.added.iter().map(|added| &added.ty);
                    for ty in self.parsed.functions.iter().chain(added) {
                        section.function(*ty);
                    }
                    module.section(&section);
                    continue;
                }
                Payload::CodeSectionStart { .. } => {
                    module.section(&self.code()?);
                    code_written = true;
                    continue;
                }
                _ => {}
            }
            if let Some((id, range)) = payload.as_section() {
                let data = self.parsed.bytes(range).ok_or(IntegersError::Missing("end"))?;
                module.section(&RawSection { id, data });
            }
        }
        if !code_written {
            return Err(IntegersError::Missing("code"));
        }
        Ok(module.finish())
    }

    /// Writes the type section with the added types; the existing contents are copied.
    fn types(&self, section: &TypeSectionReader<'_>) -> Result<Vec<u8>, IntegersError> {
        let known = self.parsed.signatures.len();
        let range = section.original_position()..section.range().end;
        let copied = self.parsed.bytes(range).ok_or(IntegersError::Missing("types"))?;
        if section.count() as usize != known {
            return Err(IntegersError::Missing("types that stand for themselves"));
        }
        let mut data = Vec::new();
        (known + self.added_types.len()).encode(&mut data);
        data.extend_from_slice(copied);
        for ty in &self.added_types {
            const FUNCTION: u8 = 0x60;
            data.push(FUNCTION);
            for values in [ty.params(), ty.results()] {
                values.len().encode(&mut data);
                data.extend(values.iter().map(|value| match value {
                    ValType::I64 => 0x7e,
                    ValType::F32 => 0x7d,
                    ValType::F64 => 0x7c,
                    _ => 0x7f,
                }));
            }
        }
        Ok(data)
    }

    fn code(&self) -> Result<CodeSection, IntegersError> {
        let mut section = CodeSection::new();
        for index in (self.parsed.imports..).take(self.parsed.functions.len()) {
            match self.replaced.get(&index) {
                Some(body) => section.raw(body),
                None => section.raw(&self.original(index)?),
            };
        }
        for added in &self.added {
            match &added.body {
                Body::New(body) => section.raw(body),
                Body::Moved(index) => section.raw(&self.original(*index)?),
            };
        }
        Ok(section)
    }

    /// Returns the body of a function with its replaced code.
    fn original(&self, index: u32) -> Result<std::borrow::Cow<'_, [u8]>, IntegersError> {
        let missing = || IntegersError::Missing("body of a function");
        let body = self.parsed.defined(index).and_then(|at| self.parsed.bodies.get(at));
        let range = body.ok_or_else(missing)?.range();
        let Some(splices) = self.spliced.get(&index) else {
            return Ok(self.parsed.bytes(range).ok_or_else(missing)?.into());
        };
        let mut bytes = Vec::new();
        let mut from = range.start;
        for splice in splices {
            let kept = from..splice.range.start;
            bytes.extend_from_slice(self.parsed.bytes(kept).ok_or_else(missing)?);
            bytes.extend_from_slice(&splice.with);
            from = splice.range.end;
        }
        bytes.extend_from_slice(self.parsed.bytes(from..range.end).ok_or_else(missing)?);
        Ok(bytes.into())
    }
}
