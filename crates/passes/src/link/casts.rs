//! Finds functions that CPython calls as functions of another type.
//!
//! In C, a method without arguments is often a function of one parameter, cast to one of two; a
//! getter may leave out its closure. Processors ignore the difference, WebAssembly traps. CPython
//! keeps such functions in arrays, whose layout tells the type of each call. An array's address
//! then gets the table slot of an adapter: a function of that type that leaves out arguments, or
//! adds zeros.
//!
//! An array is recognised by its whole symbol: size, relocations, numbers and the empty last entry;
//! one of a type's slots also by the `PyType_Spec` that refers to it. An array of another program
//! that looks the same gets adapters, too. These call what was in it, so that the extension harms
//! itself at most.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use wasm_encoder::{Function, Instruction as I};
use wasmparser::{DefinedDataSymbol, FuncType, RelocationEntry, RelocationType as R, ValType};

/// Adapters of an extension.
#[derive(Default)]
pub(super) struct Adapters {
    /// The called function and the type of the call.
    pub functions: Vec<(u32, FuncType)>,
    /// The adapter for each place in the file that has the function's slot.
    pub of: HashMap<usize, u32>,
}

/// Words of a `PyMethodDef`, a `PyGetSetDef` and a `PyType_Slot`, of a `PyType_Spec` and a
/// `PyTypeObject`.
const METHOD: usize = 4;
const GETSET: usize = 5;
const SLOT: usize = 2;
const SPEC: usize = 5;
const TYPE: usize = 53;

/// Calls of functions in a `PyType_Slot`, by its number: how many parameters, and whether they
/// return nothing (`a` has one parameter, `b` has two).
const SLOTS: &[u8] = b"3b312122121212222223222221122121322222322222122--31aa33-2213\
    111-3133313--a22111a34-21--3b31";
/// Maximum number of parameters of a function that gets an adapter.
const MOST: usize = 8;

/// Offsets of functions in a `PyTypeObject`, and the numbers of their slots.
const IN_TYPE: [(usize, u32); 24] = [
    (24, 52),
    (32, 57),
    (36, 68),
    (44, 66),
    (60, 59),
    (64, 50),
    (68, 70),
    (72, 58),
    (76, 69),
    (92, 71),
    (96, 51),
    (100, 67),
    (108, 62),
    (112, 63),
    (136, 54),
    (140, 55),
    (148, 60),
    (152, 47),
    (156, 65),
    (160, 74),
    (164, 61),
    (188, 53),
    (196, 80),
    (200, 82),
];

/// How CPython calls a function: the number of parameters, all `i32`, and whether it returns one.
#[derive(Clone, Copy)]
struct Call {
    parameters: usize,
    returns: bool,
}

/// Where functions are, and how they are called.
type Calls = Vec<(usize, Call)>;

/// A word of an extension's data.
#[derive(Clone, Copy)]
enum Word {
    Number(u32),
    Address,
    Function(u32),
}

/// What an extension has, as it was read.
pub(super) struct Input<'a> {
    pub bytes: &'a [u8],
    pub data: &'a [(u32, Range<usize>)],
    /// The function of each symbol, if it is one.
    pub functions: &'a [Option<u32>],
    pub defined: &'a [DefinedDataSymbol],
    pub relocations: &'a [(Range<usize>, RelocationEntry)],
    pub types: &'a [FuncType],
    pub type_of: &'a [u32],
}

/// Finds the adapters that an extension needs.
pub(super) fn find(input: &Input<'_>) -> Adapters {
    let words = input.relocations.iter().filter_map(|(place, entry)| {
        // A weak function that is not there is null, and stays it.
        if input.bytes.get(place.clone()).is_none_or(|bytes| bytes.iter().all(|byte| *byte == 0)) {
            return None;
        }
        let word = match (entry.ty, input.functions.get(entry.index as usize)) {
            (R::TableIndexI32, Some(Some(index))) => Word::Function(*index),
            (R::MemoryAddrI32, _) => Word::Address,
            _ => return None,
        };
        Some((place.start, word))
    });
    let words: HashMap<usize, Word> = words.collect();
    let mut adapters = Adapters::default();
    let mut numbers: HashMap<(u32, FuncType), u32> = HashMap::new();
    for (place, call) in calls(input, &words) {
        let Some(Word::Function(function)) = words.get(&place) else {
            continue;
        };
        let actual = input.type_of.get(*function as usize);
        let Some(actual) = actual.and_then(|ty| input.types.get(*ty as usize)) else {
            continue;
        };
        let Some(ty) = call.adapted(actual) else {
            continue;
        };
        let number = *numbers.entry((*function, ty.clone())).or_insert_with(|| {
            adapters.functions.push((*function, ty));
            adapters.functions.len() as u32 - 1
        });
        adapters.of.insert(place, number);
    }
    adapters
}

/// The words of one symbol.
struct Array<'a> {
    place: Range<usize>,
    bytes: &'a [u8],
    words: &'a HashMap<usize, Word>,
}

impl Array<'_> {
    fn len(&self) -> usize {
        self.place.len() / 4
    }

    /// What the file has at a word, before relocation.
    fn value(&self, index: usize) -> u32 {
        let bytes = self.bytes.get(self.place.start + 4 * index..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn word(&self, index: usize) -> Word {
        let word = self.words.get(&(self.place.start + 4 * index)).copied();
        word.unwrap_or_else(|| Word::Number(self.value(index)))
    }
}

/// Returns the places of functions in CPython's arrays, and how they are called.
fn calls(input: &Input<'_>, words: &HashMap<usize, Word>) -> Calls {
    let place = |symbol: &DefinedDataSymbol| {
        let (_, segment) = input.data.get(symbol.index as usize)?;
        let start = segment.start.checked_add(symbol.offset as usize)?;
        let end = start.checked_add(symbol.size as usize)?;
        (end <= segment.end && symbol.size.is_multiple_of(4)).then_some(start..end)
    };
    let mut arrays: Vec<Range<usize>> = input.defined.iter().filter_map(place).collect();
    arrays.sort_by_key(|array| array.start);
    // Aliases share a place. Reading no byte twice bounds the work.
    let mut end = 0;
    arrays.retain(|array| {
        let is_new = array.start >= end;
        end = end.max(array.end);
        is_new
    });
    let bytes = input.bytes;
    let array = |place: Range<usize>| Array {
        place,
        bytes,
        words,
    };
    let arrays: Vec<Array<'_>> = arrays.into_iter().map(array).collect();
    let of_types: HashSet<usize> =
        arrays.iter().flat_map(slots_of).filter_map(|at| in_file(input, at)).collect();
    let mut found = Vec::new();
    for array in &arrays {
        let here = entries(array, METHOD, method)
            .or_else(|| entries(array, GETSET, getset))
            .or_else(|| of_types.contains(&array.place.start).then(|| slots(array))?)
            .or_else(|| of_type(array));
        let here = here.into_iter().flatten();
        found.extend(here.map(|(index, call)| (array.place.start + 4 * index, call)));
    }
    found
}

/// Returns the place in the file of an address that is in its data.
fn in_file(input: &Input<'_>, address: u32) -> Option<usize> {
    input.data.iter().find_map(|(start, range)| {
        let offset = address.checked_sub(*start)? as usize;
        (offset < range.len()).then(|| range.start + offset)
    })
}

/// Returns the addresses of slots in an array of `PyType_Spec`: each has a name, two sizes, flags
/// and the slots.
fn slots_of(array: &Array<'_>) -> Vec<u32> {
    use Word::{Address, Number};
    let starts = (0..array.len()).step_by(SPEC);
    if !array.len().is_multiple_of(SPEC) {
        return Vec::new();
    }
    let is_spec = |start: usize| {
        let words = [0, 1, 2, 3, 4].map(|at| array.word(start + at));
        matches!(words, [Address, Number(_), Number(_), Number(_), Address])
    };
    starts.filter(|start| is_spec(*start)).map(|start| array.value(start + 4)).collect()
}

/// Reads an array of entries with an empty last one. Returns `None` if it is something else.
fn entries(array: &Array<'_>, size: usize, read: fn(&[Word]) -> Option<Calls>) -> Option<Calls> {
    let last = array.len().checked_sub(size)?;
    let is_empty = |index| matches!(array.word(index), Word::Number(0));
    if !array.len().is_multiple_of(size) || !(last..array.len()).all(is_empty) {
        return None;
    }
    let mut found = Vec::new();
    for start in (0..last).step_by(size) {
        let entry: Vec<Word> = (start..start + size).map(|index| array.word(index)).collect();
        found.extend(read(&entry)?.into_iter().map(|(index, call)| (start + index, call)));
    }
    Some(found)
}

fn method(entry: &[Word]) -> Option<Calls> {
    const VARARGS: u32 = 1;
    const KEYWORDS: u32 = 2;
    const NO_ARGUMENTS: u32 = 4;
    const ONE: u32 = 8;
    /// `METH_CLASS`, `METH_STATIC` and `METH_COEXIST`.
    const BINDING: u32 = 0x70;
    const FAST: u32 = 0x80;
    const WITH_CLASS: u32 = 0x200;
    let &[Word::Address, Word::Function(_), Word::Number(flags), Word::Address | Word::Number(0)] =
        entry
    else {
        return None;
    };
    let parameters = match flags & !BINDING {
        VARARGS | NO_ARGUMENTS | ONE => 2,
        flags if flags == VARARGS | KEYWORDS || flags == FAST => 3,
        flags if flags == FAST | KEYWORDS => 4,
        flags if flags == WITH_CLASS | FAST | KEYWORDS => 5,
        _ => return None,
    };
    Some(vec![(1, Call::returning(parameters))])
}

fn getset(entry: &[Word]) -> Option<Calls> {
    let is_text = matches!(entry[3], Word::Address | Word::Number(0));
    let is_one = matches!(entry[0], Word::Address) && is_text;
    let is_function = |word| matches!(word, Word::Function(_) | Word::Number(0));
    let are_functions = is_function(entry[1]) && is_function(entry[2]);
    (is_one && are_functions).then(|| vec![(1, Call::returning(2)), (2, Call::returning(3))])
}

/// Reads an array of a type's slots.
fn slots(array: &Array<'_>) -> Option<Calls> {
    entries(array, SLOT, |entry| match entry {
        &[Word::Number(id), value] if id != 0 => Some(match (value, Call::of_slot(id)) {
            (Word::Function(_), Some(call)) => vec![(1, call)],
            _ => Vec::new(),
        }),
        _ => None,
    })
}

/// Reads a type. Its words are a reference count, its own type, its name and its size.
fn of_type(array: &Array<'_>) -> Option<Calls> {
    let is_head = array.len() == TYPE
        && matches!(array.word(0), Word::Number(1..))
        && matches!(array.word(3), Word::Address)
        && matches!(array.word(4), Word::Number(1..));
    let calls = IN_TYPE.iter().filter_map(|&(at, id)| Some((at / 4, Call::of_slot(id)?)));
    is_head.then(|| calls.collect())
}

impl Call {
    const fn returning(parameters: usize) -> Self {
        Self {
            parameters,
            returns: true,
        }
    }

    fn of_slot(id: u32) -> Option<Self> {
        let parameters = match SLOTS.get((id as usize).checked_sub(1)?)? {
            digit @ b'1'..=b'9' => return Some(Self::returning(usize::from(digit - b'0'))),
            letter @ b'a'..=b'b' => usize::from(letter - b'a') + 1,
            _ => return None,
        };
        Some(Self {
            parameters,
            returns: false,
        })
    }

    /// Returns the type of this call, if a function of the type `actual` needs an adapter for it
    /// and can have one.
    fn adapted(self, actual: &FuncType) -> Option<FuncType> {
        let results: &[ValType] = if self.returns { &[ValType::I32] } else { &[] };
        let ty = FuncType::new(vec![ValType::I32; self.parameters], results.to_vec());
        let is_number = |ty: &ValType| *ty == ValType::I32;
        let can_be = actual.params().iter().all(is_number)
            && actual.params().len() <= MOST
            && actual.results().len() <= 1
            && actual.results().iter().all(is_number);
        (can_be && ty != *actual).then_some(ty)
    }
}

/// Returns the body of an adapter.
pub(super) fn adapter(function: u32, actual: &FuncType, call: &FuncType) -> Function {
    let mut body = Function::new([]);
    for parameter in 0..actual.params().len() {
        if parameter < call.params().len() {
            body.instruction(&I::LocalGet(parameter as u32));
        } else {
            body.instruction(&I::I32Const(0));
        }
    }
    body.instruction(&I::Call(function));
    match (actual.results().len(), call.results().len()) {
        (1, 0) => {
            body.instruction(&I::Drop);
        }
        (0, 1) => {
            body.instruction(&I::I32Const(0));
        }
        _ => {}
    }
    body.instruction(&I::End);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types of functions 0 to 5: with one to three `i32` and an `i32` as the result, without
    /// parameters, without a result, and with a parameter of another type.
    fn types() -> Vec<FuncType> {
        let of = |count: usize| FuncType::new(vec![ValType::I32; count], [ValType::I32]);
        let nothing = FuncType::new([ValType::I32], []);
        let wide = FuncType::new([ValType::I64], [ValType::I32]);
        vec![of(1), of(2), of(3), of(0), nothing, wide]
    }

    /// Returns which words of an array get an adapter, and the number of its parameters.
    fn adapted(words: &[Word]) -> Vec<(usize, u32, usize)> {
        adapted_beside(words, &[])
    }

    /// As `adapted`, beside a symbol whose addresses are all that of the array.
    fn adapted_beside(words: &[Word], other: &[Word]) -> Vec<(usize, u32, usize)> {
        let mut bytes = vec![0xff; 8];
        let mut relocations = Vec::new();
        for word in words.iter().chain(other) {
            let ty = match word {
                Word::Number(_) => None,
                Word::Address => Some((R::MemoryAddrI32, 7)),
                Word::Function(index) => Some((R::TableIndexI32, *index)),
            };
            let at = bytes.len();
            relocations.extend(ty.map(|(ty, index)| {
                let entry = RelocationEntry {
                    ty,
                    offset: at as u32,
                    index,
                    addend: 0,
                };
                (at..at + 4, entry)
            }));
            let number = match word {
                Word::Number(number) => *number,
                Word::Address => 1024 + 4,
                // A weak function that is not there.
                Word::Function(6) => 0,
                Word::Function(index) => index + 1,
            };
            bytes.extend(number.to_le_bytes());
        }
        let functions: Vec<_> = (0..7).map(Some).chain([None]).collect();
        let array = DefinedDataSymbol {
            index: 0,
            offset: 4,
            size: words.len() as u32 * 4,
        };
        let other = DefinedDataSymbol {
            index: 0,
            offset: array.offset + array.size,
            size: other.len() as u32 * 4,
        };
        let found = find(&Input {
            bytes: &bytes,
            data: &[(1024, 4..bytes.len())],
            functions: &functions,
            defined: &[other, array, array],
            relocations: &relocations,
            types: &types(),
            type_of: &[0, 1, 2, 3, 4, 5, 0],
        });
        let mut adapted: Vec<_> = found
            .of
            .into_iter()
            .map(|(place, number)| {
                let (function, ty) = &found.functions[number as usize];
                ((place - 8) / 4, *function, ty.params().len())
            })
            .collect();
        adapted.sort_unstable();
        adapted
    }

    use Word::{Address as A, Function as F, Number as N};

    #[test]
    fn methods_are_called_as_their_flags_say() {
        let one = |function, flags| adapted(&[A, F(function), N(flags), A, N(0), N(0), N(0), N(0)]);
        for (flags, parameters) in [(1, 2), (4, 2), (8 | 0x20, 2), (3, 3), (0x80, 3), (0x82, 4)] {
            assert_eq!(one(0, flags), [(1, 0, parameters)], "{flags}");
        }
        assert_eq!(one(4, 0x282), [(1, 4, 5)]);
        assert_eq!(one(2, 4), [(1, 2, 2)], "what is not given is zero");
        assert_eq!(one(1, 4), [], "it has the type already");
        assert_eq!(one(5, 4), [], "no number can be left out for a wide one");
        assert_eq!(one(0, 0x404), [], "a flag that CPython does not have");
    }

    #[test]
    fn an_array_has_an_empty_last_entry_and_nothing_else() {
        let methods = [A, F(0), N(4), A, A, F(3), N(4), N(0), N(0), N(0), N(0), N(0)];
        assert_eq!(adapted(&methods), [(1, 0, 2), (5, 3, 2)]);
        assert_eq!(adapted(&methods[..8]), []);
        let mut other = methods;
        other[6] = F(0);
        assert_eq!(adapted(&other), []);
    }

    #[test]
    fn getters_and_setters_may_leave_out_their_closure() {
        let zeros = [N(0); 5];
        let array = [[A, F(0), F(1), A, N(1)], [A, F(0), N(0), N(0), A], zeros].concat();
        assert_eq!(adapted(&array), [(1, 0, 2), (2, 1, 3), (6, 0, 2)]);
        // A null function stays null.
        assert_eq!(adapted(&[A, F(0), F(6), A, N(1), N(0), N(0), N(0), N(0), N(0)]), [(1, 0, 2)]);
    }

    #[test]
    fn slots_of_types_are_called_by_their_number() {
        let array = [N(52), F(0), N(60), F(1), N(72), A, N(0), N(0)];
        let spec = [A, N(16), N(0), N(0), A];
        assert_eq!(adapted_beside(&array, &spec), [(1, 0, 1), (3, 1, 3)]);
        let two = [[A, N(16), N(0), N(0), N(0)], spec].concat();
        assert_eq!(adapted_beside(&array, &two), [(1, 0, 1), (3, 1, 3)]);
        // Of something else, such as a program's table of operators.
        assert_eq!(adapted(&array), []);
        assert_eq!(adapted_beside(&array, &[A, N(16), N(0), A, A]), []);
        assert_eq!(SLOTS.len(), 91);
    }

    #[test]
    fn types_are_called_by_their_layout() {
        let mut ty = vec![N(0); TYPE];
        (ty[0], ty[3], ty[4], ty[6], ty[11]) = (N(1), A, N(16), F(0), F(3));
        assert_eq!(adapted(&ty), [(6, 0, 1), (11, 3, 1)]);
        ty[3] = N(0);
        assert_eq!(adapted(&ty), []);
    }

    #[test]
    fn an_adapter_is_valid_for_each_pair_of_types() {
        for call in [Call::returning(2), Call::of_slot(52).unwrap(), Call::returning(5)] {
            for actual in types() {
                let Some(ty) = call.adapted(&actual) else {
                    continue;
                };
                let mut types = wasm_encoder::TypeSection::new();
                let mut functions = wasm_encoder::FunctionSection::new();
                for (index, ty) in [&actual, &ty].into_iter().enumerate() {
                    let numbers = |count: usize| vec![wasm_encoder::ValType::I32; count];
                    types.ty().function(numbers(ty.params().len()), numbers(ty.results().len()));
                    functions.function(index as u32);
                }
                let mut code = wasm_encoder::CodeSection::new();
                let mut body = Function::new([]);
                body.instruction(&I::Unreachable).instruction(&I::End);
                code.function(&body).function(&adapter(0, &actual, &ty));
                let mut module = wasm_encoder::Module::new();
                module.section(&types).section(&functions).section(&code);
                wasmparser::validate(&module.finish()).unwrap();
            }
        }
    }
}
