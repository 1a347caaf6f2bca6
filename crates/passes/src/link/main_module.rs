//! The main module's side: it exports functions by name, its tags and its table, and its table gets
//! room for the functions of extensions. Its code does not change.

use std::collections::{BTreeMap, HashMap, HashSet};

use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{ExportKind, ExportSection, RawSection, TableSection, TableType};
use wasmparser::{
    ElementItems, ElementKind, FuncType, Operator, Parser, Payload, TableInit, TypeRef,
};

use super::{CPP_EXCEPTION, LINKED, LONGJMP, TABLE, refused, unsupported};
use crate::PassError;
use crate::tier::{LIBRARIES, Tier};
use crate::tiers::Parsed;

/// Table slots for the functions of extensions.
const ROOM: u32 = 1 << 16;

/// Functions of the C library, zlib and bzip2 that extensions may call, if the module has them.
const LIBRARY_NAMES: &str = include_str!("names.txt");

/// Returns the module with room for extensions.
pub(crate) fn open(module: &[u8]) -> Result<Vec<u8>, PassError> {
    let functions = functions(&Parsed::new(module)?)?;
    let mut out = wasm_encoder::Module::new();
    let mut tags = 0;
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        match &payload {
            Payload::TagSection(section) => tags = section.count(),
            Payload::TableSection(section) => {
                let mut tables = TableSection::new();
                for table in section.clone() {
                    let table = table?;
                    if !matches!(table.init, TableInit::RefNull) || !tables.is_empty() {
                        return Err(unsupported("it needs one table without initial values"));
                    }
                    let grown = table.ty.initial + u64::from(ROOM);
                    tables.table(TableType {
                        minimum: grown,
                        maximum: Some(grown),
                        ..RoundtripReencoder.table_type(table.ty).map_err(refused)?
                    });
                }
                out.section(&tables);
                continue;
            }
            Payload::ExportSection(section) => {
                let mut exports = ExportSection::new();
                RoundtripReencoder
                    .parse_export_section(&mut exports, section.clone())
                    .map_err(refused)?;
                exports.export(TABLE, ExportKind::Table, 0);
                // In this order in the artifact: `__wasm_longjmp` throws the second.
                for (tag, name) in [CPP_EXCEPTION, LONGJMP].into_iter().enumerate() {
                    if (tag as u32) < tags {
                        exports.export(&format!("{LINKED}{name}"), ExportKind::Tag, tag as u32);
                    }
                }
                for (name, &index) in &functions {
                    exports.export(&format!("{LINKED}{name}"), ExportKind::Func, index);
                }
                out.section(&exports);
                continue;
            }
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
            let data = range.and_then(|(start, end)| module.get(start..end));
            let data = data.ok_or(unsupported("a section lies outside it"))?;
            out.section(&RawSection { id, data });
        }
    }
    Ok(out.finish())
}

/// Returns the functions that extensions may call: CPython's by prefix, others by the list. Only
/// names that occur once in the code of all tiers count, so that they are the same on every tier.
fn functions<'a>(parsed: &Parsed<'a>) -> Result<BTreeMap<&'a str, u32>, PassError> {
    let starts = parsed.starts(LIBRARIES)?;
    let listed: HashSet<&str> = LIBRARY_NAMES.split_ascii_whitespace().collect();
    let mut found: BTreeMap<&str, (u32, bool)> = BTreeMap::new();
    for &(index, name) in &parsed.names {
        let Some(at) = parsed.defined(index) else {
            continue;
        };
        let library = starts.partition_point(|&start| start <= at).saturating_sub(1);
        if LIBRARIES[library].tier != Tier::Core {
            continue;
        }
        let is_of_python = library == 0
            && (name.starts_with("Py") || name.starts_with("_Py"))
            && !name.starts_with("PyInit_")
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if is_of_python || listed.contains(name) {
            let place = found.entry(name).or_insert((index, true));
            place.1 &= place.0 == index;
        }
    }
    Ok(found
        .into_iter()
        .filter_map(|(name, (index, once))| once.then_some((name, index)))
        .collect())
}

/// What the main module offers to extensions.
pub struct Targets {
    functions: HashMap<String, Target>,
    /// The first table slot for extensions.
    pub first_slot: u32,
    /// One more than the last.
    pub end_of_slots: u32,
}

/// One function of the main module.
pub(super) struct Target {
    pub ty: FuncType,
    /// Its slot in the module's own table, if any.
    pub slot: Option<u32>,
}

impl Targets {
    /// Reads the unchanged module.
    ///
    /// # Errors
    ///
    /// If the module is not as expected.
    pub fn of(module: &[u8]) -> Result<Self, PassError> {
        let parsed = Parsed::new(module)?;
        let functions = functions(&parsed)?;
        let mut types: Vec<FuncType> = Vec::new();
        let mut type_of: Vec<u32> = Vec::new();
        let mut slots: HashMap<u32, u32> = HashMap::new();
        let mut first_slot = 0;
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    for ty in section.into_iter_err_on_gc_types() {
                        types.push(ty?);
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        if let TypeRef::Func(ty) = import?.ty {
                            type_of.push(ty);
                        }
                    }
                }
                Payload::FunctionSection(section) => {
                    for ty in section {
                        type_of.push(ty?);
                    }
                }
                Payload::TableSection(section) => {
                    for table in section {
                        first_slot = u32::try_from(table?.ty.initial).unwrap_or(u32::MAX);
                    }
                }
                Payload::ElementSection(section) => {
                    for element in section {
                        let element = element?;
                        let ElementKind::Active { offset_expr, .. } = &element.kind else {
                            continue;
                        };
                        let Operator::I32Const { value } =
                            offset_expr.get_operators_reader().read()?
                        else {
                            return Err(unsupported("its table is filled at unknown slots"));
                        };
                        if let ElementItems::Functions(functions) = element.items {
                            for (slot, function) in (value.cast_unsigned()..).zip(functions) {
                                slots.entry(function?).or_insert(slot);
                            }
                        }
                    }
                }
                Payload::CodeSectionStart { .. } => break,
                _ => {}
            }
        }
        let target = |index: u32| {
            let ty = types.get(*type_of.get(index as usize)? as usize)?.clone();
            Some(Target {
                ty,
                slot: slots.get(&index).copied(),
            })
        };
        let functions = functions
            .into_iter()
            .filter_map(|(name, index)| Some((name.to_owned(), target(index)?)))
            .collect();
        Ok(Self {
            functions,
            first_slot,
            end_of_slots: first_slot.saturating_add(ROOM),
        })
    }

    /// Finds a function by the name that an extension uses. The C library defines some functions
    /// only under their reserved name.
    pub(super) fn find(&self, name: &str) -> Option<(String, &Target)> {
        [name.to_owned(), format!("__{name}")]
            .into_iter()
            .find_map(|name| self.functions.get(&name).map(|target| (name.clone(), target)))
    }
}
