//! Writes the linked module.

use std::collections::{BTreeMap, HashMap};

use wasm_encoder::reencode::{Reencode, RoundtripReencoder as Same};
use wasm_encoder::{
    CodeSection, ConstExpr, ElementSection, Elements, EntityType, ExportKind, ExportSection,
    Function, FunctionSection, GlobalSection, GlobalType, ImportSection, Instruction as I,
    MemoryType, Module, RefType, TableType, TagSection, TypeSection, ValType,
};
use wasmparser::{Parser, Payload};

use super::casts;
use super::extension::{Extension, Import, LIES, usize_range};
use super::relocate::part;
use super::{
    CONSTRUCTORS, LINKED, LinkError, Linked, MAIN, MEMORY, Place, STACK_POINTER, TABLE, Targets,
};

impl Extension<'_> {
    /// Links it at a place. `data` has the addresses of the main module's data that it refers to.
    ///
    /// # Errors
    ///
    /// If the main module lacks something, or the file contradicts itself.
    pub fn link(
        &self,
        place: Place,
        targets: &Targets,
        data: &BTreeMap<String, u32>,
    ) -> Result<Linked, LinkError> {
        self.check(targets)?;
        let aligned = place.memory.checked_next_multiple_of(self.alignment);
        let place = Place {
            memory: aligned.ok_or(LIES)?,
            ..place
        };
        let last = place.slot.checked_add(self.needs().slots);
        if place.slot < targets.first_slot || last.is_none_or(|last| last > targets.end_of_slots) {
            return Err(LinkError::Unsupported("has no room in the interpreter's table"));
        }
        let (file, values) = self.relocated(place, targets, data)?;
        let shift = self.shift(place);
        let own =
            |(start, range): &(u32, _)| Ok((start.wrapping_add(shift.memory), part(&file, range)?));
        let first_init = place.slot + self.own_slots();
        Ok(Linked {
            module: self.module(&file, &values, place, targets)?,
            data: self.data.iter().map(own).collect::<Result<_, LinkError>>()?,
            inits: (self.inits().map(|(name, _)| name.to_owned())).zip(first_init..).collect(),
            has_constructors: self.exports.iter().any(|(name, _)| *name == CONSTRUCTORS),
        })
    }

    fn module(
        &self,
        file: &[u8],
        values: &BTreeMap<u32, u32>,
        place: Place,
        targets: &Targets,
    ) -> Result<Vec<u8>, LinkError> {
        let wrappers = self.wrappers();
        let (mut types, mut tags, mut globals) =
            (TypeSection::new(), TagSection::new(), GlobalSection::new());
        let (mut functions, mut code) = (FunctionSection::new(), CodeSection::new());
        for payload in Parser::new(0).parse_all(file) {
            match payload? {
                Payload::TypeSection(section) => Same.parse_type_section(&mut types, section)?,
                Payload::TagSection(section) => Same.parse_tag_section(&mut tags, section)?,
                Payload::FunctionSection(section) => {
                    Same.parse_function_section(&mut functions, section)?;
                }
                // The first is imported.
                Payload::GlobalSection(section) => {
                    for (index, global) in (0..).zip(section).skip(1) {
                        let global = global?;
                        let ty: GlobalType = Same.global_type(global.ty)?;
                        let value = match values.get(&index) {
                            Some(value) => ConstExpr::i32_const(value.cast_signed()),
                            None => Same.const_expr(global.init_expr)?,
                        };
                        globals.global(ty, &value);
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    let range = usize_range(&body.range())?;
                    code.raw(file.get(range).ok_or(LIES)?);
                }
                _ => {}
            }
        }
        for &(function, ty) in &wrappers.added {
            functions.function(ty);
            code.function(&self.wrapper(function, ty)?);
        }
        let mut added = Vec::new();
        for (function, ty) in &self.adapters.functions {
            let known = added.iter().position(|known| known == ty);
            let index = known.unwrap_or_else(|| {
                let parameters = vec![ValType::I32; ty.params().len()];
                let results = vec![ValType::I32; ty.results().len()];
                types.ty().function(parameters, results);
                added.push(ty.clone());
                added.len() - 1
            });
            functions.function((self.types.len() + index) as u32);
            let actual = self.type_of.get(*function as usize).ok_or(LIES)?;
            let actual = self.types.get(*actual as usize).ok_or(LIES)?;
            code.function(&casts::adapter(*function, actual, ty));
        }
        let mut exports = ExportSection::new();
        for &(name, index) in &self.exports {
            exports.export(name, ExportKind::Func, index);
        }
        let mut module = Module::new();
        module.section(&types).section(&self.import_section(targets)?).section(&functions);
        if !tags.is_empty() {
            module.section(&tags);
        }
        module
            .section(&globals)
            .section(&exports)
            .section(&self.element_section(place, &wrappers))
            .section(&code);
        Ok(module.finish())
    }

    fn import_section(&self, targets: &Targets) -> Result<ImportSection, LinkError> {
        let mut section = ImportSection::new();
        let mut functions = self.functions.iter();
        for import in &self.imports {
            match import {
                Import::Function => {
                    let &(name, ty) = functions.next().ok_or(LIES)?;
                    let (name, _) = targets.find(name).ok_or(LIES)?;
                    section.import(MAIN, &format!("{LINKED}{name}"), EntityType::Function(ty));
                }
                Import::Tag(name, ty) => {
                    let tag = wasm_encoder::TagType {
                        kind: wasm_encoder::TagKind::Exception,
                        func_type_idx: *ty,
                    };
                    section.import(MAIN, &format!("{LINKED}{name}"), EntityType::Tag(tag));
                }
                Import::Shared => {}
            }
        }
        let memory = MemoryType {
            minimum: 0,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        };
        let table = TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum: 0,
            maximum: None,
            shared: false,
        };
        let stack_pointer = GlobalType {
            val_type: ValType::I32,
            mutable: true,
            shared: false,
        };
        section.import(MAIN, MEMORY, memory);
        section.import(MAIN, TABLE, table);
        section.import(MAIN, STACK_POINTER, stack_pointer);
        Ok(section)
    }

    /// Returns the functions that stand for imported ones in the table: they have to be this
    /// module's own, to check the fuel.
    fn wrappers(&self) -> Wrappers {
        let mut wrappers = Wrappers::default();
        let mut next = self.type_of.len() as u32;
        for &function in self.elements.iter().flat_map(|(_, functions)| functions) {
            let Some(&(_, ty)) = self.functions.get(function as usize) else {
                continue;
            };
            wrappers.of.entry(function).or_insert_with(|| {
                wrappers.added.push((function, ty));
                next += 1;
                next - 1
            });
        }
        wrappers
    }

    fn wrapper(&self, function: u32, ty: u32) -> Result<Function, LinkError> {
        let ty = self.types.get(ty as usize).ok_or(LIES)?;
        let mut body = Function::new([]);
        for parameter in 0..ty.params().len() as u32 {
            body.instruction(&I::LocalGet(parameter));
        }
        body.instruction(&I::Call(function)).instruction(&I::End);
        Ok(body)
    }

    fn element_section(&self, place: Place, wrappers: &Wrappers) -> ElementSection {
        let mut section = ElementSection::new();
        let shift = self.shift(place);
        for (start, functions) in &self.elements {
            let own = functions.iter().map(|index| *wrappers.of.get(index).unwrap_or(index));
            let start = start.wrapping_add(shift.slots).cast_signed();
            let own: Vec<u32> = own.collect();
            section.active(None, &ConstExpr::i32_const(start), Elements::Functions(own.into()));
        }
        let inits: Vec<u32> = self.inits().map(|(_, index)| index).collect();
        let first = (self.type_of.len() + wrappers.added.len()) as u32;
        let adapters: Vec<u32> = (first..).take(self.adapters.functions.len()).collect();
        let starts = [(self.own_slots(), inits), (self.first_adapter(), adapters)];
        for (start, functions) in starts {
            let start = ConstExpr::i32_const((place.slot + start).cast_signed());
            if !functions.is_empty() {
                section.active(None, &start, Elements::Functions(functions.into()));
            }
        }
        section
    }
}

#[derive(Default)]
struct Wrappers {
    /// The wrapper of each imported function in the table.
    of: HashMap<u32, u32>,
    /// Wrapped functions in the order of their wrappers, with their types.
    added: Vec<(u32, u32)>,
}
