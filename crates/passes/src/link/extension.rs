//! Reads an extension. Its bytes are untrusted.

use std::collections::BTreeSet;
use std::ops::Range;

use wasmparser::{
    DataKind, DefinedDataSymbol, ElementItems, ElementKind, ExternalKind, FuncType, GlobalType,
    KnownCustom, Linking, Operator, Parser, Payload, RelocationEntry, SymbolFlags, SymbolInfo,
    TypeRef, ValType,
};

use super::casts::{self, Adapters};
use super::{CPP_EXCEPTION, LONGJMP, LinkError, Targets};

/// Maximum size of an extension's memory, in bytes.
const MAX_MEMORY: u64 = 256 << 20;
/// Maximum size of its file, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// Maximum number of its functions, and of their types.
const MAX_FUNCTIONS: u64 = 1 << 16;
/// Maximum size of a function's body, in bytes.
const MAX_BODY: u64 = 1 << 20;
/// Maximum number of a function's local variables.
const MAX_LOCALS: u64 = 10_000;
/// Maximum number of its table slots.
const MAX_SLOTS: u32 = 1 << 15;
const PAGE: u64 = 1 << 16;
/// Module from which `wasm-ld` imports.
const ENVIRONMENT: &str = "env";
/// Export name of the end of an extension's memory, if it exports it.
const HEAP_BASE: &str = "__heap_base";
const INIT: &str = "PyInit_";

/// An extension that was read, but not placed yet.
pub struct Extension<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) types: Vec<FuncType>,
    pub(super) imports: Vec<Import<'a>>,
    /// Imported functions: name and type.
    pub(super) functions: Vec<(&'a str, u32)>,
    /// Types of all functions.
    pub(super) type_of: Vec<u32>,
    /// Initial values of its globals, if they are numbers. The first is the stack pointer.
    pub(super) globals: Vec<Option<u32>>,
    /// Exported functions that are kept.
    pub(super) exports: Vec<(&'a str, u32)>,
    pub(super) elements: Vec<(u32, Vec<u32>)>,
    /// Data segments: address, and place in the file.
    pub(super) data: Vec<(u32, Range<usize>)>,
    pub(super) symbols: Vec<Symbol<'a>>,
    /// Relocations, with the place in the file that each changes.
    pub(super) relocations: Vec<(Range<usize>, RelocationEntry)>,
    pub(super) adapters: Adapters,
    /// Alignment of its memory.
    pub(super) alignment: u32,
    /// Lowest and highest address of its memory as it was linked.
    pub(super) memory: (u32, u32),
    /// The same of its table slots.
    pub(super) slots: (u32, u32),
}

/// An import, in the order of the file.
pub(super) enum Import<'a> {
    Function,
    Tag(&'a str, u32),
    /// Memory or table, which the linker imports from the main module.
    Shared,
}

/// A symbol that relocations refer to.
pub(super) enum Symbol<'a> {
    Function(u32),
    /// Data of the extension.
    Own,
    /// A number that does not move: the base of relative addresses and slots.
    Absolute,
    /// Data of the main module.
    Data(&'a str),
    /// A weak symbol without a definition: its address is 0.
    Null,
    Other,
}

/// Room that an extension needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Size of its memory in bytes.
    pub memory: u32,
    /// Number of its table slots.
    pub slots: u32,
}

/// Minimum alignment of an extension's memory, and its maximum as a power of 2.
const ALIGNMENT: u32 = 64;
const MAX_ALIGNMENT: u32 = 16;

impl<'a> Extension<'a> {
    /// Reads an extension.
    ///
    /// # Errors
    ///
    /// If the file is not a module that `wasm-ld` linked with relocations.
    pub fn read(bytes: &'a [u8]) -> Result<Self, LinkError> {
        limited("size in bytes", bytes.len() as u64, MAX_FILE)?;
        let mut read = Reading::default();
        let mut sections: Vec<Range<usize>> = Vec::new();
        let mut relocations = Vec::new();
        let mut is_linked = false;
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload?;
            if let Some((_, range)) = payload.as_section() {
                sections.push(usize_range(&range)?);
            }
            match payload {
                Payload::CustomSection(section) => match section.as_known() {
                    KnownCustom::Linking(linking) => {
                        is_linked = true;
                        for part in linking {
                            read.linking(part?)?;
                        }
                    }
                    KnownCustom::Reloc(section) => relocations.push(section),
                    _ => {}
                },
                payload => read.section(bytes, payload)?,
            }
        }
        if !is_linked {
            return Err(LinkError::Unsupported("was not linked with `--emit-relocs`"));
        }
        let mut entries = Vec::new();
        for section in relocations {
            let target = sections.get(section.section_index() as usize);
            let target = target.ok_or(LIES)?.clone();
            for entry in section.entries() {
                let entry = entry?;
                let place = entry.relocation_range()?;
                let start = target.start.checked_add(place.start).ok_or(LIES)?;
                let end = target.start.checked_add(place.end).ok_or(LIES)?;
                if end > target.end {
                    return Err(LIES);
                }
                entries.push((start..end, entry));
            }
        }
        read.finish(bytes, entries)
    }

    /// Returns the room that it needs.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let (low, high) = self.memory;
        Needs {
            memory: high - low + self.alignment,
            slots: self.first_adapter() + self.adapters.functions.len() as u32,
        }
    }

    /// Slots before those of adapters: its own, and those of `PyInit` functions.
    pub(super) fn first_adapter(&self) -> u32 {
        self.own_slots() + self.inits().count() as u32
    }

    pub(super) fn own_slots(&self) -> u32 {
        self.slots.1 - self.slots.0
    }

    /// Iterates over its `PyInit` functions, by the name of the module.
    pub(super) fn inits(&self) -> impl Iterator<Item = (&'a str, u32)> {
        self.exports.iter().filter_map(|&(name, index)| Some((name.strip_prefix(INIT)?, index)))
    }

    /// Returns the data of the main module that it refers to.
    #[must_use]
    pub fn data(&self) -> BTreeSet<&'a str> {
        let symbols = self.relocations.iter().map(|(_, entry)| entry.index as usize);
        symbols
            .filter_map(|index| match self.symbols.get(index) {
                Some(Symbol::Data(name)) => Some(*name),
                _ => None,
            })
            .collect()
    }

    /// Checks that the main module has the imported functions.
    ///
    /// # Errors
    ///
    /// If a function is missing or has another type.
    pub fn check(&self, targets: &Targets) -> Result<(), LinkError> {
        for &(name, ty) in &self.functions {
            let expected = self.types.get(ty as usize).ok_or(LIES)?;
            let (_, target) = targets.find(name).ok_or_else(|| LinkError::Function {
                name: name.to_owned(),
            })?;
            if target.ty != *expected {
                return Err(LinkError::Type {
                    name: name.to_owned(),
                    expected: expected.to_string(),
                    actual: target.ty.to_string(),
                });
            }
        }
        Ok(())
    }
}

pub(super) const LIES: LinkError = LinkError::Unsupported("contradicts itself");

pub(super) fn usize_range(range: &Range<u64>) -> Result<Range<usize>, LinkError> {
    let start = usize::try_from(range.start).map_err(|_| LIES)?;
    Ok(start..usize::try_from(range.end).map_err(|_| LIES)?)
}

impl<'a> Symbol<'a> {
    fn of(symbol: &SymbolInfo<'a>) -> Self {
        match *symbol {
            SymbolInfo::Func { index, .. } => Self::Function(index),
            SymbolInfo::Data { flags, .. } if flags.contains(SymbolFlags::ABSOLUTE) => {
                Self::Absolute
            }
            SymbolInfo::Data {
                symbol: Some(_), ..
            } => Self::Own,
            SymbolInfo::Data { flags, .. } if flags.contains(SymbolFlags::BINDING_WEAK) => {
                Self::Null
            }
            SymbolInfo::Data { name, .. } => Self::Data(name),
            _ => Self::Other,
        }
    }
}

#[derive(Default)]
struct Reading<'a> {
    types: Vec<FuncType>,
    imports: Vec<Import<'a>>,
    functions: Vec<(&'a str, u32)>,
    type_of: Vec<u32>,
    globals: Vec<(GlobalType, Option<u32>)>,
    exports: Vec<(&'a str, u32)>,
    heap_base: Option<u32>,
    memory_pages: Option<u64>,
    elements: Vec<(u32, Vec<u32>)>,
    data: Vec<(u32, Range<usize>)>,
    symbols: Vec<Symbol<'a>>,
    defined: Vec<DefinedDataSymbol>,
    /// Alignment of its data, as a power of 2.
    alignment: u32,
    bodies: u32,
}

impl<'a> Reading<'a> {
    fn linking(&mut self, part: Linking<'a>) -> Result<(), LinkError> {
        match part {
            Linking::SymbolTable(symbols) => {
                for symbol in symbols {
                    let symbol = symbol?;
                    if let SymbolInfo::Data {
                        symbol: Some(place),
                        ..
                    } = symbol
                    {
                        self.defined.push(place);
                    }
                    self.symbols.push(Symbol::of(&symbol));
                }
            }
            Linking::SegmentInfo(segments) => {
                for segment in segments {
                    self.alignment = self.alignment.max(segment?.alignment);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn section(&mut self, bytes: &[u8], payload: Payload<'a>) -> Result<(), LinkError> {
        match payload {
            Payload::TypeSection(section) => {
                limited("number of types", u64::from(section.count()), MAX_FUNCTIONS)?;
                for ty in section.into_iter_err_on_gc_types() {
                    self.types.push(ty?);
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    self.import(import?)?;
                }
            }
            Payload::FunctionSection(section) => {
                limited("number of functions", u64::from(section.count()), MAX_FUNCTIONS)?;
                for ty in section {
                    self.type_of.push(ty?);
                }
            }
            Payload::TableSection(section) if section.count() > 0 => {
                return Err(LinkError::Unsupported("has a table of its own"));
            }
            Payload::MemorySection(section) if section.count() > 0 => {
                return Err(LinkError::Unsupported("has a memory of its own"));
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    let global = global?;
                    let value = match global.init_expr.get_operators_reader().read()? {
                        Operator::I32Const { value } => Some(value.cast_unsigned()),
                        _ => None,
                    };
                    self.globals.push((global.ty, value));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    match export.kind {
                        ExternalKind::Func => self.exports.push((export.name, export.index)),
                        ExternalKind::Global if export.name == HEAP_BASE => {
                            let global = self.globals.get(export.index as usize).ok_or(LIES)?;
                            self.heap_base = global.1;
                        }
                        _ => {}
                    }
                }
            }
            Payload::ElementSection(section) => {
                for element in section {
                    let element = element?;
                    let (
                        ElementItems::Functions(functions),
                        ElementKind::Active {
                            offset_expr,
                            table_index: None | Some(0),
                        },
                    ) = (element.items, element.kind)
                    else {
                        return Err(LinkError::Unsupported("fills its table in an unusual way"));
                    };
                    let start = constant(&offset_expr)?;
                    let functions = functions.into_iter().collect::<Result<Vec<_>, _>>()?;
                    self.elements.push((start, functions));
                }
            }
            Payload::DataSection(section) => {
                for segment in section {
                    let segment = segment?;
                    let DataKind::Active {
                        memory_index: 0,
                        offset_expr,
                    } = segment.kind
                    else {
                        return Err(LinkError::Unsupported("has passive data"));
                    };
                    let start = (segment.data.as_ptr() as usize)
                        .checked_sub(bytes.as_ptr() as usize)
                        .ok_or(LIES)?;
                    let place = start..start + segment.data.len();
                    self.data.push((constant(&offset_expr)?, place));
                }
            }
            Payload::StartSection { .. } => {
                return Err(LinkError::Unsupported("has a start function"));
            }
            Payload::CodeSectionEntry(body) => {
                self.bodies += 1;
                let range = body.range();
                limited("largest function in bytes", range.end - range.start, MAX_BODY)?;
                let mut locals = 0;
                for group in body.get_locals_reader()? {
                    locals += u64::from(group?.0);
                }
                limited("number of local variables in a function", locals, MAX_LOCALS)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn import(&mut self, import: wasmparser::Import<'a>) -> Result<(), LinkError> {
        let foreign = || LinkError::Import {
            module: import.module.to_owned(),
            name: import.name.to_owned(),
        };
        if import.module != ENVIRONMENT {
            return Err(foreign());
        }
        match import.ty {
            TypeRef::Func(ty) => {
                self.functions.push((import.name, ty));
                self.type_of.push(ty);
                self.imports.push(Import::Function);
            }
            TypeRef::Memory(ty) if self.memory_pages.is_none() && !ty.memory64 && !ty.shared => {
                self.memory_pages = Some(ty.initial);
                self.imports.push(Import::Shared);
            }
            TypeRef::Table(ty) if import.name == "__indirect_function_table" && !ty.table64 => {
                self.imports.push(Import::Shared);
            }
            TypeRef::Tag(ty) if [LONGJMP, CPP_EXCEPTION].contains(&import.name) => {
                self.imports.push(Import::Tag(import.name, ty.func_type_idx));
            }
            _ => return Err(foreign()),
        }
        Ok(())
    }

    fn finish(
        self,
        bytes: &'a [u8],
        relocations: Vec<(Range<usize>, RelocationEntry)>,
    ) -> Result<Extension<'a>, LinkError> {
        let pages = self.memory_pages;
        let pages = pages.ok_or(LinkError::Unsupported("does not import its memory"))?;
        let mut globals = self.globals.iter();
        match globals.next() {
            Some((ty, _)) if ty.mutable && ty.content_type == ValType::I32 => {}
            None => {}
            _ => return Err(LinkError::Unsupported("has no stack pointer as its first global")),
        }
        if globals.any(|(ty, _)| ty.mutable) {
            return Err(LinkError::Unsupported("has a second mutable global"));
        }
        let imported = self.functions.len();
        if self.type_of.len() != imported + self.bodies as usize {
            return Err(LIES);
        }
        // Without the symbol, the memory's size limits what it uses.
        let end = self.heap_base.map_or(pages.saturating_mul(PAGE), u64::from);
        let low = self.data.iter().map(|(start, _)| *start).min().unwrap_or(0);
        limited("alignment as a power of 2", u64::from(self.alignment), u64::from(MAX_ALIGNMENT))?;
        let alignment = ALIGNMENT.max(1 << self.alignment);
        let low = low - low % alignment;
        let high = u32::try_from(end).map_err(|_| LIES)?;
        if high < low || u64::from(high - low) > MAX_MEMORY {
            return Err(LinkError::Unsupported("needs more memory than an extension may have"));
        }
        for (start, place) in &self.data {
            if u64::from(*start) + place.len() as u64 > u64::from(high) {
                return Err(LIES);
            }
        }
        let first = self.elements.iter().map(|(start, _)| *start).min().unwrap_or(0);
        let mut last = first;
        for (start, functions) in &self.elements {
            let length = u32::try_from(functions.len()).map_err(|_| LIES)?;
            last = last.max(start.checked_add(length).ok_or(LIES)?);
            if functions.iter().any(|&index| index as usize >= self.type_of.len()) {
                return Err(LIES);
            }
        }
        let exports: Vec<_> = self
            .exports
            .into_iter()
            .filter(|(name, _)| *name == super::CONSTRUCTORS || name.starts_with(INIT))
            .collect();
        let is_own =
            |&(_, index): &(&str, u32)| (imported..self.type_of.len()).contains(&(index as usize));
        if !exports.iter().all(is_own) {
            return Err(LIES);
        }
        let function = |symbol: &Symbol<'_>| match symbol {
            Symbol::Function(index) => Some(*index),
            _ => None,
        };
        let functions: Vec<Option<u32>> = self.symbols.iter().map(function).collect();
        let adapters = casts::find(&casts::Input {
            bytes,
            data: &self.data,
            functions: &functions,
            defined: &self.defined,
            relocations: &relocations,
            types: &self.types,
            type_of: &self.type_of,
        });
        let others = [exports.len(), adapters.functions.len()];
        if last - first > MAX_SLOTS || others.iter().any(|&slots| slots > MAX_SLOTS as usize) {
            return Err(LinkError::Unsupported("has more functions in its table than it may have"));
        }
        Ok(Extension {
            bytes,
            types: self.types,
            imports: self.imports,
            functions: self.functions,
            type_of: self.type_of,
            globals: self.globals.iter().map(|(_, value)| *value).collect(),
            exports,
            elements: self.elements,
            data: self.data,
            symbols: self.symbols,
            relocations,
            adapters,
            alignment,
            memory: (low, high),
            slots: (first, last),
        })
    }
}

fn limited(what: &'static str, actual: u64, most: u64) -> Result<(), LinkError> {
    if actual > most {
        return Err(LinkError::TooLarge { what, actual, most });
    }
    Ok(())
}

fn constant(value: &wasmparser::ConstExpr<'_>) -> Result<u32, LinkError> {
    match value.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok(value.cast_unsigned()),
        _ => Err(LinkError::Unsupported("is position-independent code, which is not needed")),
    }
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{
        CodeSection, CustomSection, Function, FunctionSection, ImportSection, MemoryType, Module,
        TypeSection, ValType,
    };

    use super::*;

    fn what(bytes: &[u8]) -> &'static str {
        match Extension::read(bytes) {
            Err(LinkError::TooLarge { what, .. }) => what,
            Err(other) => panic!("{other}"),
            Ok(_) => "nothing",
        }
    }

    fn module(count: u64, body: &Function) -> Vec<u8> {
        let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
        types.ty().function([], []);
        let mut code = CodeSection::new();
        for _ in 0..count {
            functions.function(0);
            code.function(body);
        }
        let mut module = Module::new();
        module.section(&types).section(&functions).section(&code);
        module.finish()
    }

    #[test]
    fn what_is_too_large_is_named() {
        let body = |locals: u64| {
            let mut body = Function::new([(locals as u32, ValType::I32)]);
            body.raw([0x0b]);
            body
        };
        assert_eq!(what(&vec![0; MAX_FILE as usize + 1]), "size in bytes");
        assert_eq!(what(&module(MAX_FUNCTIONS + 1, &body(0))), "number of functions");
        let locals = what(&module(1, &body(MAX_LOCALS + 1)));
        assert_eq!(locals, "number of local variables in a function");
        let mut long = Function::new([]);
        long.raw(vec![1; MAX_BODY as usize]);
        assert_eq!(what(&module(1, &long)), "largest function in bytes");
    }
    #[test]
    fn memory_is_aligned_as_its_data() {
        let aligned = |alignment: u8| {
            let mut imports = ImportSection::new();
            let memory = MemoryType {
                minimum: 1,
                maximum: None,
                memory64: false,
                shared: false,
                page_size_log2: None,
            };
            imports.import(ENVIRONMENT, "memory", memory);
            // Version 2, and the alignment of one segment without a name.
            let linking = CustomSection {
                name: "linking".into(),
                data: vec![2, 5, 4, 1, 0, alignment, 0].into(),
            };
            let mut module = Module::new();
            module.section(&imports).section(&linking);
            module.finish()
        };
        for (alignment, bytes) in [(0, 64), (6, 64), (7, 128), (16, 65_536)] {
            let module = aligned(alignment);
            let needs = Extension::read(&module).unwrap().needs();
            assert_eq!(needs.memory, 65_536 + bytes, "{alignment}");
        }
        assert_eq!(what(&aligned(17)), "alignment as a power of 2");
    }
}
