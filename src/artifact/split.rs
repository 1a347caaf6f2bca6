//! Splits the module into code, which is compiled once, and its initial memory.
//!
//! Two states of one Python differ only in the linear memory and in the one mutable global, the
//! stack pointer. So the data section is removed from the module and becomes the first memory
//! image, and the global is exported so that an image can set it.

use wasm_encoder::{ExportKind, ExportSection, RawSection};
use wasmparser::{DataKind, ExternalKind, Operator, Parser, Payload};

pub(crate) use belljar_passes::STACK_POINTER;

/// The size of a WebAssembly page.
pub(crate) const PAGE: usize = 65536;

/// The module cannot be split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The bytes are not a WebAssembly module.
    #[error("the Python module cannot be parsed")]
    Parse(#[from] wasmparser::BinaryReaderError),
    /// The module has state that an image cannot contain.
    #[error("the Python module cannot be split: {0}")]
    Unsupported(&'static str),
}

/// The two parts of a module.
pub(crate) struct Split {
    /// The module without its data, with the stack pointer exported.
    pub code: Vec<u8>,
    /// Its initial memory.
    pub memory: Vec<u8>,
    /// Initial value of the stack pointer.
    pub stack_pointer: i32,
}

/// Splits `wasm`.
pub(crate) fn split(wasm: &[u8]) -> Result<Split, SplitError> {
    let mut code = wasm_encoder::Module::new();
    let mut memory = Vec::new();
    let mut stack_pointer = None;
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        match &payload {
            Payload::MemorySection(section) => memory = initial_memory(section.clone())?,
            Payload::GlobalSection(section) => {
                stack_pointer = Some(single_global(section.clone())?);
            }
            Payload::ExportSection(section) => {
                code.section(&with_stack_pointer(section.clone())?);
                continue;
            }
            Payload::DataSection(section) => {
                copy_data(section.clone(), &mut memory)?;
                continue;
            }
            // Custom sections are names and build notes; the data count belongs to the data.
            Payload::CustomSection(_) | Payload::DataCountSection { .. } => continue,
            Payload::StartSection { .. } => {
                return Err(SplitError::Unsupported("it has a start function"));
            }
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            let data = usize::try_from(range.start)
                .and_then(|start| Ok(start..usize::try_from(range.end)?))
                .ok()
                .and_then(|range| wasm.get(range))
                .ok_or(SplitError::Unsupported("a section lies outside it"))?;
            code.section(&RawSection { id, data });
        }
    }
    Ok(Split {
        code: code.finish(),
        memory,
        stack_pointer: stack_pointer.ok_or(SplitError::Unsupported("it has no global"))?,
    })
}

fn initial_memory(section: wasmparser::MemorySectionReader<'_>) -> Result<Vec<u8>, SplitError> {
    let memories: Vec<_> = section.into_iter().collect::<Result<_, _>>()?;
    match memories[..] {
        [memory] if !memory.memory64 && !memory.shared && memory.initial <= 65536 => {
            let pages = usize::try_from(memory.initial).unwrap_or(usize::MAX);
            Ok(vec![0; pages.saturating_mul(PAGE)])
        }
        _ => Err(SplitError::Unsupported("it needs one ordinary 32-bit memory")),
    }
}

fn single_global(section: wasmparser::GlobalSectionReader<'_>) -> Result<i32, SplitError> {
    let globals: Vec<_> = section.into_iter().collect::<Result<_, _>>()?;
    let mut mutable = globals.iter().enumerate().filter(|(_, g)| g.ty.mutable);
    match (mutable.next(), mutable.next()) {
        (Some((0, global)), None) => constant(&global.init_expr),
        _ => Err(SplitError::Unsupported("it needs exactly one mutable global, the first")),
    }
}

fn with_stack_pointer(
    section: wasmparser::ExportSectionReader<'_>,
) -> Result<ExportSection, SplitError> {
    let mut exports = ExportSection::new();
    for export in section {
        let export = export?;
        let kind = match export.kind {
            ExternalKind::Func => ExportKind::Func,
            ExternalKind::Table => ExportKind::Table,
            ExternalKind::Memory => ExportKind::Memory,
            ExternalKind::Global => ExportKind::Global,
            ExternalKind::Tag => ExportKind::Tag,
            ExternalKind::FuncExact => {
                return Err(SplitError::Unsupported("it exports a function by exact type"));
            }
        };
        exports.export(export.name, kind, export.index);
    }
    exports.export(STACK_POINTER, ExportKind::Global, 0);
    Ok(exports)
}

fn copy_data(
    section: wasmparser::DataSectionReader<'_>,
    memory: &mut [u8],
) -> Result<(), SplitError> {
    for segment in section {
        let segment = segment?;
        let offset_expr = match segment.kind {
            DataKind::Active {
                memory_index: 0,
                offset_expr,
            } => offset_expr,
            // Left empty by the tool that made the snapshot.
            DataKind::Passive if segment.data.is_empty() => continue,
            _ => return Err(SplitError::Unsupported("it has a passive data segment")),
        };
        let start = usize::try_from(constant(&offset_expr)?.cast_unsigned()).unwrap_or(usize::MAX);
        start
            .checked_add(segment.data.len())
            .and_then(|end| memory.get_mut(start..end))
            .ok_or(SplitError::Unsupported("a data segment lies outside its memory"))?
            .copy_from_slice(segment.data);
    }
    Ok(())
}

fn constant(expression: &wasmparser::ConstExpr<'_>) -> Result<i32, SplitError> {
    match expression.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok(value),
        _ => Err(SplitError::Unsupported("an initial value is not a constant")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (module (memory 1) (global (mut i32) (i32.const 42)) (export "memory" (memory 0))
    ///  (data (i32.const 3) "abc"))
    const MODULE: &[u8] = b"\0asm\x01\0\0\0\x05\x03\x01\0\x01\x06\x06\x01\x7f\x01\x41\x2a\x0b\
        \x07\x0a\x01\x06memory\x02\0\x0b\x09\x01\0\x41\x03\x0b\x03abc";

    #[test]
    fn data_becomes_memory_and_the_global_an_export() {
        let split = split(MODULE).unwrap();
        assert_eq!(split.stack_pointer, 42);
        assert_eq!(split.memory.len(), PAGE);
        assert_eq!(&split.memory[..8], b"\0\0\0abc\0\0");
        wasmparser::validate(&split.code).unwrap();
        let text = String::from_utf8_lossy(&split.code);
        assert!(text.contains(STACK_POINTER));
        assert!(!text.contains("abc"));
    }

    #[test]
    fn a_module_that_ends_within_a_section_is_an_error() {
        // Cut between two sections, it is a valid module with fewer sections.
        let between = [21, 33];
        for length in (0..MODULE.len()).filter(|length| !between.contains(length)) {
            assert!(split(&MODULE[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn data_outside_the_memory_is_an_error() {
        let mut module = MODULE.to_vec();
        let offset = module.len() - 6;
        module[offset] = 0x7f; // i32.const -1: the last byte of the address space
        assert!(matches!(split(&module), Err(SplitError::Unsupported(_))));
    }
}
