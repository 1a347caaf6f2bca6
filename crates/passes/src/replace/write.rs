//! Writes the module with the functions of the files.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use wasm_encoder::reencode::{self, Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, Function, FunctionSection, Instruction, MemorySection, NameMap, NameSection,
    RawSection, TypeSection,
};
use wasmparser::{FuncType, KnownCustom, Operator, Parser, Payload};

use super::file::{File, Global};
use super::unsupported;
use crate::PassError;
use crate::profile::Input;

/// Size of a page of memory.
const PAGE: u64 = 65_536;
/// Alignment of states: that of a processor's cache line.
const ALIGNMENT: u64 = 64;

pub(super) const BROKEN: PassError = unsupported("its functions are not well formed");

/// The changes of a module.
pub(super) struct Changes<'i, 'a> {
    input: &'i Input<'a>,
    named: HashMap<&'a str, Vec<u32>>,
    pages: u32,
    /// Address of the next state.
    next_state: u64,
    /// One more than the last address for states.
    end_of_states: u64,
    /// Types that the module does not have.
    added_types: Vec<FuncType>,
    /// New bodies, by index.
    replaced: BTreeMap<u32, Vec<u8>>,
    added: Vec<Added>,
}

/// A function at the end.
struct Added {
    ty: u32,
    body: Vec<u8>,
    name: String,
}

impl<'i, 'a> Changes<'i, 'a> {
    pub fn new(input: &'i Input<'a>, pages: u32) -> Result<Self, PassError> {
        let mut named: HashMap<&str, Vec<u32>> = HashMap::new();
        for index in input.defined() {
            named.entry(input.name(index)).or_default().push(index);
        }
        let next_state = memory(input.module)? * PAGE;
        Ok(Self {
            input,
            named,
            pages,
            next_state,
            end_of_states: next_state + u64::from(pages) * PAGE,
            added_types: Vec::new(),
            replaced: BTreeMap::new(),
            added: Vec::new(),
        })
    }

    /// Returns the addresses of a file's states, in the order of its globals.
    pub fn reserve(&mut self, file: &File<'_>) -> Result<Vec<u32>, PassError> {
        let mut addresses = Vec::new();
        for global in &file.globals {
            if let Global::State(size) = global {
                let end = self.next_state + u64::from(*size).next_multiple_of(ALIGNMENT);
                if end > self.end_of_states {
                    return Err(file.refused("needs more state than there are pages for it"));
                }
                let address = u32::try_from(self.next_state);
                addresses.push(address.map_err(|_| unsupported("its memory is too large"))?);
                self.next_state = end;
            }
        }
        Ok(addresses)
    }

    /// Returns the functions that a file replaces, in the order of its exports. They are all
    /// missing in a tier that does not contain them.
    pub fn replaced(&self, file: &File<'_>, is_complete: bool) -> Result<Vec<u32>, PassError> {
        let is_there = |(name, _): &(&str, u32)| self.named.contains_key(name);
        if !is_complete && !file.exports.iter().any(is_there) {
            return Ok(Vec::new());
        }
        let indices = file.exports.iter().map(|&(name, at)| {
            let ty = file.functions.get(at as usize).ok_or(BROKEN)?;
            let index = self.function(file, name, *ty)?;
            if self.replaced.contains_key(&index) {
                return Err(file.differs(name, "is replaced twice"));
            }
            Ok(index)
        });
        indices.collect()
    }

    /// Returns the function of this name and type of a file.
    fn function(&self, file: &File<'_>, name: &str, ty: u32) -> Result<u32, PassError> {
        let index = match self.named.get(name).map(Vec::as_slice) {
            Some([index]) => *index,
            Some(_) => return Err(file.differs(name, "is not the only one of this name")),
            None => return Err(file.differs(name, "is missing")),
        };
        if self.input.ty(index)? != file.ty(ty)? {
            return Err(file.differs(name, "has another type"));
        }
        Ok(index)
    }

    /// Adds the functions of a file.
    pub fn add(
        &mut self,
        file: &File<'_>,
        replaced: &[u32],
        states: &[u32],
    ) -> Result<(), PassError> {
        let types: Vec<u32> = file.types.iter().map(|ty| self.ty(ty)).collect();
        let ty_of = |ty: u32| types.get(ty as usize).copied().ok_or(BROKEN);
        let next = self.input.defined().end + self.added.len() as u32;
        let mut added = Vec::new();
        let mut functions = Vec::new();
        for import in &file.imports {
            let index = self.function(file, import.name, import.ty)?;
            functions.push(if import.is_original {
                let body = self.input.body(index).ok_or(BROKEN)?;
                added.push(Added {
                    ty: ty_of(import.ty)?,
                    body: body.as_bytes().to_vec(),
                    name: format!("{} (original)", import.name),
                });
                next + added.len() as u32 - 1
            } else {
                index
            });
        }
        let imports = file.imports.len() as u32;
        let mut own: Vec<Option<usize>> = Vec::new();
        for (at, &ty) in (0..).zip(&file.functions) {
            let export = file.exports.iter().position(|&(_, exported)| exported == at);
            if let Some(export) = export {
                functions.push(*replaced.get(export).ok_or(BROKEN)?);
                own.push(None);
                continue;
            }
            functions.push(next + added.len() as u32);
            own.push(Some(added.len()));
            let name = file.names.get(&(imports + at)).copied().unwrap_or_default();
            added.push(Added {
                ty: ty_of(ty)?,
                body: Vec::new(),
                name: format!("{}.{name}", file.name),
            });
        }
        let mut states = states.iter();
        let globals = file.globals.iter().map(|global| match global {
            Global::State(_) => {
                let address = states.next().ok_or(BROKEN)?;
                Ok(Instruction::I32Const(address.cast_signed()))
            }
            Global::Constant(constant) => Ok(constant.clone()),
        });
        let globals: Vec<_> = globals.collect::<Result<_, PassError>>()?;
        let mut placed = Placed {
            types: &types,
            functions: &functions,
            globals: &globals,
        };
        for (at, (body, own)) in (0..).zip(std::iter::zip(&file.bodies, own)) {
            let body = placed.body(body).map_err(refused)?;
            for (&(name, exported), &index) in std::iter::zip(&file.exports, replaced) {
                if exported == at && self.replaced.insert(index, body.clone()).is_some() {
                    return Err(file.differs(name, "is replaced twice"));
                }
            }
            if let Some(own) = own {
                added[own].body = body;
            }
        }
        self.added.append(&mut added);
        Ok(())
    }

    /// Returns the index of a type, which is added if the module does not have it.
    fn ty(&mut self, ty: &FuncType) -> u32 {
        let mut types = self.input.types.iter().chain(&self.added_types);
        let known = types.position(|known| known == ty);
        known.unwrap_or_else(|| {
            self.added_types.push(ty.clone());
            self.input.types.len() + self.added_types.len() - 1
        }) as u32
    }

    /// Writes the changed module.
    pub fn write(&self) -> Result<Vec<u8>, PassError> {
        let module = self.input.module;
        let mut out = wasm_encoder::Module::new();
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            match &payload {
                Payload::TypeSection(section) => {
                    let mut types = TypeSection::new();
                    RoundtripReencoder
                        .parse_type_section(&mut types, section.clone())
                        .map_err(refused)?;
                    for ty in &self.added_types {
                        let ty = RoundtripReencoder.func_type(ty.clone()).map_err(refused)?;
                        types.ty().func_type(&ty);
                    }
                    out.section(&types);
                    continue;
                }
                Payload::FunctionSection(section) => {
                    let mut functions = FunctionSection::new();
                    for ty in section.clone() {
                        functions.function(ty?);
                    }
                    for added in &self.added {
                        functions.function(added.ty);
                    }
                    out.section(&functions);
                    continue;
                }
                Payload::MemorySection(section) => {
                    let mut memories = MemorySection::new();
                    for memory in section.clone() {
                        let mut memory =
                            RoundtripReencoder.memory_type(memory?).map_err(refused)?;
                        memory.minimum += u64::from(self.pages);
                        if memory.maximum.is_some_and(|most| most < memory.minimum) {
                            return Err(unsupported("its memory cannot grow"));
                        }
                        memories.memory(memory);
                    }
                    out.section(&memories);
                    continue;
                }
                Payload::CodeSectionStart { .. } => {
                    let mut code = CodeSection::new();
                    for (index, body) in self.input.defined().zip(&self.input.bodies) {
                        let replaced = self.replaced.get(&index).map(Vec::as_slice);
                        code.raw(replaced.unwrap_or(body.as_bytes()));
                    }
                    for added in &self.added {
                        code.raw(&added.body);
                    }
                    out.section(&code);
                    continue;
                }
                Payload::CustomSection(section)
                    if matches!(section.as_known(), KnownCustom::Name(_)) =>
                {
                    continue;
                }
                _ => {}
            }
            if let Some((id, range)) = payload.as_section() {
                let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                let data = range.and_then(|(start, end)| module.get(start..end)).ok_or(BROKEN)?;
                out.section(&RawSection { id, data });
            }
        }
        out.section(&self.names());
        Ok(out.finish())
    }

    /// Returns the names of all functions; nothing needs the other names.
    fn names(&self) -> NameSection {
        let mut functions = NameMap::new();
        let end = self.input.defined().end;
        for index in 0..end {
            let name = self.input.name(index);
            if !name.is_empty() {
                functions.append(index, name);
            }
        }
        for (index, added) in (end..).zip(&self.added) {
            functions.append(index, &added.name);
        }
        let mut section = NameSection::new();
        section.functions(&functions);
        section
    }
}

/// Returns the size of a module's memory, in pages.
fn memory(module: &[u8]) -> Result<u64, PassError> {
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::MemorySection(section) = payload? {
            let memories: Vec<_> = section.into_iter().collect::<Result<_, _>>()?;
            if let [memory] = memories[..]
                && !memory.memory64
            {
                return Ok(memory.initial);
            }
        }
    }
    Err(unsupported("it needs one memory of its own"))
}

pub(super) fn refused(error: reencode::Error) -> PassError {
    PassError::of(error, "replace")
}

/// A file's indices in the module.
struct Placed<'f> {
    types: &'f [u32],
    functions: &'f [u32],
    globals: &'f [Instruction<'static>],
}

impl Placed<'_> {
    fn body(
        &mut self,
        body: &wasmparser::FunctionBody<'_>,
    ) -> Result<Vec<u8>, reencode::Error<Infallible>> {
        let mut function: Function = self.new_function_with_parsed_locals(body)?;
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            function.instruction(&self.parse_instruction(&mut reader)?);
        }
        Ok(function.into_raw_body())
    }
}

// All indices are those of a validated file.
impl Reencode for Placed<'_> {
    type Error = Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, reencode::Error> {
        Ok(self.functions.get(index as usize).copied().unwrap_or(u32::MAX))
    }

    fn type_index(&mut self, index: u32) -> Result<u32, reencode::Error> {
        Ok(self.types.get(index as usize).copied().unwrap_or(u32::MAX))
    }

    fn instruction<'o>(
        &mut self,
        operator: Operator<'o>,
    ) -> Result<Instruction<'o>, reencode::Error> {
        if let Operator::GlobalGet { global_index } = operator
            && let Some(constant) = self.globals.get(global_index as usize)
        {
            return Ok(constant.clone());
        }
        reencode::utils::instruction(self, operator)
    }
}
