//! Native modules of packages: linked when an image is made, and part of it ever after.
//!
//! The modules are written here, as `wasm-ld` writes them: no compiler is needed.

mod bases;
mod replacing;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use belljar::bundle::{BundleOptions, Processor};
use belljar::outcome::ErrorKind;
use belljar::request::Deterministic;
use belljar::{Error, Request, Runtime, SessionOptions};
use wasm_encoder::{
    ConstExpr, ElementSection, Elements, EntityType, ExportKind, ExportSection, FunctionSection,
    GlobalSection, GlobalType, ImportSection, LinkingSection, MemoryType, Module, RawSection,
    RefType, SymbolTable, TableType, TypeSection, ValType,
};

use crate::support::{chain, failed, run_on, succeeded, tokio};

/// The module `counted`: `count()` counts calls in its memory, `spin()` never returns, and
/// `number(n)` is a function of the interpreter, as a pointer.
struct Side {
    /// The function that creates the module, and its type.
    create: (&'static str, u32),
    /// A mutable global besides the stack pointer.
    has_own_state: bool,
    /// Data of the interpreter that it refers to.
    data: &'static str,
    /// Type of the relocation of this data.
    relocation: u8,
    /// Module of its imports.
    from: &'static str,
    /// The function that initializes the module.
    init: &'static str,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            create: ("PyModuleDef_Init", ONE_TO_ONE),
            has_own_state: false,
            data: "_Py_NoneStruct",
            relocation: MEMORY_I32,
            from: "env",
            init: "PyInit_counted",
        }
    }
}

// Types.
const ONE_TO_ONE: u32 = 0;
const NONE_TO_ONE: u32 = 1;
const TWO_TO_ONE: u32 = 2;
const NONE_TO_NONE: u32 = 3;
// Functions; the first two are imported.
const CREATE: u32 = 0;
const NUMBER: u32 = 1;
const CONSTRUCT: u32 = 2;
const INIT: u32 = 3;
const COUNT: u32 = 4;
const SPIN: u32 = 5;
const NUMBER_OF: u32 = 6;
// Relocations.
const TABLE_I32: u8 = 2;
const MEMORY_LEB: u8 = 3;
const MEMORY_SLEB: u8 = 4;
const MEMORY_I32: u8 = 5;
const MEMORY_OTHER: u8 = 23;
// Addresses and symbols of data.
const DEFINITION: u32 = 1024;
const METHODS: u32 = DEFINITION + 52;
const NAMES: u32 = METHODS + 4 * 16;
const COUNTER: u32 = NAMES + 32;
const END: u32 = COUNTER + 8;
/// Symbols, in the order of the table.
const OWN: u32 = 0;
const FOREIGN: u32 = 1;
const FIRST_FUNCTION: u32 = 2;

fn padded(value: u32) -> [u8; 5] {
    let byte = |at: u32| (value >> (7 * at)) as u8 | 0x80;
    [byte(0), byte(1), byte(2), byte(3), (value >> 28) as u8]
}

/// Bytes with relocations: type, offset and symbol.
#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    relocations: Vec<(u8, u32, u32)>,
}

impl Part {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    fn relocated(&mut self, kind: u8, symbol: u32, bytes: &[u8]) -> &mut Self {
        self.relocations.push((kind, self.bytes.len() as u32, symbol));
        self.put(bytes)
    }

    fn body(&mut self, code: impl FnOnce(&mut Self)) {
        let mut body = Self::default();
        body.put(&[0]);
        code(&mut body);
        body.put(&[0x0b]);
        self.put(&padded(body.bytes.len() as u32));
        let start = self.bytes.len() as u32;
        let moved = |(kind, at, symbol)| (kind, start + at, symbol);
        self.relocations.extend(body.relocations.into_iter().map(moved));
        self.bytes.extend(body.bytes);
    }

    fn relocation_section(&self, section: u8) -> Vec<u8> {
        let mut out = vec![section, self.relocations.len() as u8];
        for &(kind, at, symbol) in &self.relocations {
            out.push(kind);
            out.extend(padded(at));
            out.extend(padded(symbol));
            if (MEMORY_LEB..=MEMORY_I32).contains(&kind) || kind == MEMORY_OTHER {
                out.push(0);
            }
        }
        out
    }
}

impl Side {
    fn code() -> Part {
        let mut code = Part::default();
        code.put(&[5]);
        // The constructor: i32.const 0, i32.const 40, i32.store.
        code.body(|body| {
            body.put(&[0x41, 0, 0x41, 40, 0x36, 2]);
            body.relocated(MEMORY_LEB, OWN, &padded(COUNTER));
        });
        code.body(|body| {
            body.put(&[0x41]).relocated(MEMORY_SLEB, OWN, &padded(DEFINITION));
            body.put(&[0x10, CREATE as u8]);
        });
        // The counter plus one, stored and returned.
        code.body(|body| {
            body.put(&[0x41, 0, 0x41, 0, 0x28, 2]).relocated(MEMORY_LEB, OWN, &padded(COUNTER));
            body.put(&[0x41, 1, 0x6a, 0x36, 2]).relocated(MEMORY_LEB, OWN, &padded(COUNTER));
            body.put(&[0x41, 0, 0x28, 2]).relocated(MEMORY_LEB, OWN, &padded(COUNTER));
            body.put(&[0x10, NUMBER as u8]);
        });
        // loop br 0 end, i32.const 0.
        code.body(|body| {
            body.put(&[0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0]);
        });
        // Calls the interpreter's function through the table, with 7.
        code.body(|body| {
            body.put(&[0x41, 7, 0x41]).relocated(1, FIRST_FUNCTION + NUMBER, &padded(4));
            body.put(&[0x11, ONE_TO_ONE as u8, 0]);
        });
        code
    }

    fn data(&self) -> Part {
        let mut data = Part::default();
        data.put(&[1, 0, 0x41]).put(&padded(DEFINITION)).put(&[0x0b]);
        data.put(&padded(END - DEFINITION));
        let word = |value: u32| value.to_le_bytes();
        data.put(&word(1)).put(&[0; 16]);
        data.relocated(MEMORY_I32, OWN, &word(NAMES)).put(&[0; 8]);
        data.relocated(MEMORY_I32, OWN, &word(METHODS)).put(&[0; 16]);
        for (slot, name) in [(1, 8), (2, 14), (3, 19)] {
            data.relocated(MEMORY_I32, OWN, &word(NAMES + name));
            let function = FIRST_FUNCTION + COUNT + slot - 1;
            data.relocated(TABLE_I32, function, &word(slot)).put(&word(4)).put(&word(0));
        }
        data.put(&[0; 16]);
        data.put(b"counted\0count\0spin\0number\0\0\0\0\0\0\0");
        data.put(&word(0)).relocated(self.relocation, FOREIGN, &word(0));
        data
    }

    fn wasm(&self) -> Vec<u8> {
        let i32s = |n: usize| vec![ValType::I32; n];
        let mut types = TypeSection::new();
        for (takes, returns) in [(1, 1), (0, 1), (2, 1), (0, 0)] {
            types.ty().function(i32s(takes), i32s(returns));
        }
        let mut imports = ImportSection::new();
        let memory = MemoryType {
            minimum: 1,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        };
        let table = TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum: 5,
            maximum: None,
            shared: false,
        };
        imports.import("env", "memory", memory);
        imports.import("env", "__indirect_function_table", table);
        imports.import(self.from, self.create.0, EntityType::Function(self.create.1));
        imports.import("env", "PyLong_FromLong", EntityType::Function(ONE_TO_ONE));
        let mut functions = FunctionSection::new();
        for ty in [NONE_TO_NONE, NONE_TO_ONE, TWO_TO_ONE, TWO_TO_ONE, TWO_TO_ONE] {
            functions.function(ty);
        }
        let mut globals = GlobalSection::new();
        let mutable = GlobalType {
            val_type: ValType::I32,
            mutable: true,
            shared: false,
        };
        globals.global(mutable, &ConstExpr::i32_const(0));
        let end = GlobalType {
            mutable: self.has_own_state,
            ..mutable
        };
        globals.global(end, &ConstExpr::i32_const(END.cast_signed()));
        let mut exports = ExportSection::new();
        exports
            .export("__wasm_call_ctors", ExportKind::Func, CONSTRUCT)
            .export(self.init, ExportKind::Func, INIT)
            .export("__heap_base", ExportKind::Global, 1);
        let mut elements = ElementSection::new();
        let slots = [COUNT, SPIN, NUMBER_OF, NUMBER];
        elements.active(None, &ConstExpr::i32_const(1), Elements::Functions(slots[..].into()));
        let (code, data) = (Self::code(), self.data());
        let mut symbols = SymbolTable::new();
        let own = wasm_encoder::DataSymbolDefinition {
            index: 0,
            offset: 0,
            size: END - DEFINITION,
        };
        symbols.data(0, "own", Some(own));
        symbols.data(SymbolTable::WASM_SYM_UNDEFINED, self.data, None);
        for index in CREATE..=NUMBER_OF {
            let is_imported = index <= NUMBER;
            let flags = if is_imported {
                SymbolTable::WASM_SYM_UNDEFINED
            } else {
                0
            };
            let name = format!("function{index}");
            symbols.function(flags, index, (!is_imported).then_some(name.as_str()));
        }
        let mut linking = LinkingSection::new();
        linking.symbol_table(&symbols);
        let raw = |id, data| RawSection { id, data };
        let mut module = Module::new();
        module.section(&types).section(&imports).section(&functions).section(&globals);
        module.section(&exports).section(&elements);
        module.section(&raw(10, &code.bytes)).section(&raw(11, &data.bytes)).section(&linking);
        for (name, part, section) in [("reloc.CODE", &code, 6), ("reloc.DATA", &data, 7)] {
            module.section(&wasm_encoder::CustomSection {
                name: name.into(),
                data: part.relocation_section(section).into(),
            });
        }
        module.finish()
    }

    /// Builds an image with the module.
    fn build(&self, runtime: &Runtime, image: &str, folder: &Path) -> Result<(), Error> {
        build(runtime, image, folder, &self.wasm())
    }
}

fn build(runtime: &Runtime, image: &str, folder: &Path, module: &[u8]) -> Result<(), Error> {
    build_with(runtime, image, folder, "counted", module)
}

/// Builds an image with a file of a native module at `path`.
fn build_with(
    runtime: &Runtime,
    image: &str,
    folder: &Path,
    path: &str,
    module: &[u8],
) -> Result<(), Error> {
    build_on(runtime, image, "core", folder, path, module)
}

/// Does the same on another image than `core`.
fn build_on(
    runtime: &Runtime,
    image: &str,
    base: &str,
    folder: &Path,
    path: &str,
    module: &[u8],
) -> Result<(), Error> {
    let counts = if path == "_decimal" { path } else { "counted" };
    let name = "counted-1.0-cp315-cp315-belljar_wasm32.whl";
    let mut archive = zip::ZipWriter::new(fs::File::create(folder.join(name)).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    archive.start_file(format!("{path}.cpython-315-belljar_wasm32.wasm"), options).unwrap();
    archive.write_all(module).unwrap();
    archive.start_file("counted-1.0.dist-info/METADATA", options).unwrap();
    archive.write_all(b"Metadata-Version: 2.1\nName: counted\nVersion: 1.0\n").unwrap();
    archive.finish().unwrap();
    let recipe = folder.join("native.toml");
    let text = format!(
        "name = \"{image}\"\nbase = \"{base}\"\nwheels = [\"{name}\"]\nimports = [\"{counts}\"]\n\
         init = \"import {counts}\\n{counts}.count()\"\n"
    );
    fs::write(&recipe, text).unwrap();
    runtime.images().build(&recipe).map(drop)
}

/// A cache with what images based on `core` need from the shared one.
fn fresh() -> tempfile::TempDir {
    let from = crate::caches::shared();
    let own = tempfile::tempdir().unwrap();
    for folder in fs::read_dir(&from).unwrap().map(Result::unwrap) {
        let (name, to) = (folder.file_name(), own.path().join(folder.file_name()));
        if name.to_string_lossy().starts_with("artifact-") {
            crate::caches::copy(&folder.path(), &to);
        }
    }
    for (folder, part) in [("images", "core.image"), ("images", "boot.image"), ("code", "-core.")] {
        fs::create_dir_all(own.path().join(folder)).unwrap();
        for file in fs::read_dir(from.join(folder)).unwrap().map(Result::unwrap) {
            if file.file_name().to_string_lossy().contains(part) {
                let to = own.path().join(folder).join(file.file_name());
                fs::copy(file.path(), to).unwrap();
            }
        }
    }
    own
}

/// One for these tests. Concurrent tests share it; the last removes it.
fn own() -> Arc<tempfile::TempDir> {
    static OWN: Mutex<Weak<tempfile::TempDir>> = Mutex::new(Weak::new());
    let mut shared = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let own = Arc::new(fresh());
        *shared = Arc::downgrade(&own);
        own
    })
}

/// The linked modules in a cache, with their code and seals.
fn linked(cache: &Path) -> Vec<PathBuf> {
    let folder = fs::read_dir(cache.join("extensions")).unwrap();
    folder.map(|entry| entry.unwrap().path()).collect()
}

fn on(cache: &Path) -> Runtime {
    Runtime::builder().environment().cache(cache).build().unwrap()
}

#[test]
fn a_native_module_is_part_of_its_image() {
    let cache = own();
    let runtime = on(cache.path());
    let folder = tempfile::tempdir().unwrap();
    Side::default()
        .build(&runtime, "counted", folder.path())
        .unwrap_or_else(|e| panic!("{}", chain(&e)));
    let request =
        |code: &str| Request::new(code).image("counted").deterministic(Deterministic::default());
    // The constructor set 40, and the recipe counted once. Every run starts from there.
    let code = "import counted\nprint(counted.count(), counted.count(), counted.number())";
    let first = run_on(&runtime, request(code)).outcome;
    assert_eq!(first.stdout, "42 43 7\n", "{first:?}");
    let second = run_on(&runtime, request(code)).outcome;
    assert_eq!((&second.stdout, second.usage.fuel), (&first.stdout, first.usage.fuel));
    // The file is not needed, and a new import makes a new module on the same state.
    let again = "import sys, counted\nold = counted\ndel sys.modules['counted']\nimport counted\n\
                 print(counted is old, counted.count(), __import__('os').listdir('/packages'))";
    let outcome = run_on(&runtime, request(again)).outcome;
    assert_eq!(outcome.stdout, "False 42 ['counted-1.0.dist-info']\n", "{outcome:?}");

    // A loop of the module counts, and ends like any other.
    let spin = Request::new("import counted\ncounted.spin()").image("counted");
    let spin = spin.timeout(Duration::from_millis(300));
    failed(&run_on(&runtime, spin).outcome, ErrorKind::Timeout);

    tokio(1).block_on(in_sessions(&runtime, folder.path()));

    // Images without extensions run on the same code, and use the same fuel.
    let plain = Request::new("print(sum(range(1000)))").image("core");
    let plain = plain.deterministic(Deterministic::default());
    let other = Runtime::builder().environment().build().unwrap();
    let fuel = |runtime| run_on(runtime, plain.clone()).outcome.usage.fuel;
    assert_eq!(fuel(&runtime), fuel(&other));
    drop(runtime);

    // Another process finds the linked module in the cache.
    let runtime = on(cache.path());
    assert_eq!(run_on(&runtime, request(code)).outcome.stdout, "42 43 7\n");
    drop(runtime);
    // Without it, the image is made again.
    for file in linked(cache.path()) {
        fs::remove_file(file).unwrap();
    }
    let runtime = on(cache.path());
    assert_eq!(run_on(&runtime, request(code)).outcome.stdout, "42 43 7\n");
    runtime.images().remove("counted").unwrap();
}

/// Every image imports `decimal`, so `_decimal` is linked before its bases' imports.
#[test]
fn a_module_that_bases_import_is_beneath_them() {
    // Another test removes the linked modules of the shared one.
    let cache = fresh();
    let runtime = on(cache.path());
    let folder = tempfile::tempdir().unwrap();
    let side = Side {
        init: "PyInit__decimal",
        ..Side::default()
    };
    let bake = |image, base: &str| {
        build_on(&runtime, image, base, folder.path(), "_decimal", &side.wasm())
    };
    bake("beneath", "core").unwrap_or_else(|e| panic!("{}", chain(&e)));
    // The recipe counted once, after the constructor had set 40. The bases were imported after it.
    let code = "import sys, _decimal, decimal, fractions\n\
                print(_decimal.__spec__.origin, _decimal.count(), decimal.Decimal(2) / 4)";
    let request = || Request::new(code).image("beneath").deterministic(Deterministic::default());
    let first = run_on(&runtime, request()).outcome;
    assert_eq!(first.stdout, "built-in 42 0.5\n", "{first:?}");
    let second = run_on(&runtime, request()).outcome;
    assert_eq!((&second.stdout, second.usage.fuel), (&first.stdout, first.usage.fuel));
    // The base has the same package, whose module counts again.
    bake("above", "beneath").unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert_eq!(run_on(&runtime, request().image("above")).outcome.stdout, "built-in 43 0.5\n");
    runtime.images().remove("above").unwrap();
    let error = bake("above", "no-such").unwrap_err();
    assert_eq!(error.code(), "image.unknown", "{}", chain(&error));
    runtime.images().remove("beneath").unwrap();
}

/// Sessions, forks and checkpoints keep the state of the module.
async fn in_sessions(runtime: &Runtime, folder: &Path) {
    let session = runtime.session(SessionOptions::new().image("counted")).await.unwrap();
    let count = || Request::new("import counted\nprint(counted.count())");
    assert_eq!(session.run(count()).await.unwrap().stdout, "42\n");
    let fork = session.fork().await.unwrap();
    assert_eq!(session.run(count()).await.unwrap().stdout, "43\n");
    assert_eq!(fork.run(count()).await.unwrap().stdout, "43\n");
    let path = folder.join("state");
    session.checkpoint(&path).await.unwrap();
    drop((session, fork));
    let resumed = runtime.restore(&path).await.unwrap();
    assert_eq!(resumed.run(count()).await.unwrap().stdout, "44\n");
}

#[test]
fn a_bundle_has_the_code_of_native_modules() {
    // Another test removes the linked modules of the shared one.
    let cache = fresh();
    let builder = || Runtime::builder().environment().cache(cache.path());
    let folder = tempfile::tempdir().unwrap();
    Side::default()
        .build(&on(cache.path()), "bundled", folder.path())
        .unwrap_or_else(|e| panic!("{}", chain(&e)));
    let request = || Request::new("import counted\nprint(counted.count(), counted.number())");
    let bundle = |images: &[&str], processor| {
        let place = tempfile::tempdir().unwrap();
        let options = BundleOptions::new(images.iter().copied()).processor(processor);
        let made = builder().make_bundle(&options, place.path());
        let hash = made.unwrap_or_else(|e| panic!("{}", chain(&e))).hash;
        (place, hash)
    };
    let of = |place: &Path| Runtime::builder().environment().bundle(place);

    // Without other images, it has only the code that is open for extensions.
    let (place, hash) = bundle(&["bundled"], Processor::Common);
    assert!(!place.path().join("code.cwasm").exists());
    let runtime = of(place.path()).bundle_hash(hash).build().unwrap();
    let outcome = run_on(&runtime, request().image("bundled")).outcome;
    assert_eq!(outcome.stdout, "42 7\n", "{outcome:?}");
    // The default image is the only one.
    assert_eq!(run_on(&runtime, request()).outcome.stdout, "42 7\n");
    drop(runtime);

    let (place, _) = bundle(&["core", "bundled"], Processor::ThisMachine);
    let runtime = of(place.path()).build().unwrap();
    assert_eq!(run_on(&runtime, request().image("bundled")).outcome.stdout, "42 7\n");
    let plain = run_on(&runtime, Request::new("print(1)").image("core")).outcome;
    assert_eq!(plain.stdout, "1\n", "{plain:?}");
    drop(runtime);

    let refused = |why: &str| {
        let runtime = of(place.path()).build().unwrap();
        let error = tokio(1).block_on(runtime.run(request().image("bundled"))).err().unwrap();
        assert_eq!(error.code(), "bundle.native");
        let text = chain(&error);
        assert!(text.contains("module counted of the image bundled"), "{text}");
        assert!(text.contains(why), "{text}");
        // Other images do not need it.
        let plain = run_on(&runtime, Request::new("print(1)").image("core")).outcome;
        assert_eq!(plain.stdout, "1\n", "{plain:?}");
    };
    let files: Vec<_> = fs::read_dir(place.path().join("extensions")).unwrap().collect();
    let [Ok(code)] = &files[..] else {
        panic!("{files:?}");
    };
    let mut bytes = fs::read(code.path()).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(code.path(), &bytes).unwrap();
    refused("is not the one that was written");
    // Code of another module under its name: the image was linked to this one.
    let manifest = place.path().join("belljar-bundle.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let name = code.file_name().into_string().unwrap();
    fs::rename(code.path(), code.path().with_file_name("other.cwasm")).unwrap();
    fs::write(&manifest, text.replace(&name, "other.cwasm")).unwrap();
    refused("does not list extensions/");
    fs::write(&manifest, text.replace("\"linking\": \"link ", "\"linking\": \"link 9")).unwrap();
    let error = of(place.path()).build().err().unwrap();
    assert_eq!(error.code(), "bundle.foreign", "{}", chain(&error));
}

#[test]
fn a_native_module_that_does_not_fit_is_refused_by_name() {
    let cache = own();
    let runtime = on(cache.path());
    let folder = tempfile::tempdir().unwrap();
    let side = Side::default;
    for (side, why) in [
        (
            Side {
                create: ("PyNo_Such", ONE_TO_ONE),
                ..side()
            },
            "has no function PyNo_Such",
        ),
        (
            Side {
                create: ("PyModuleDef_Init", TWO_TO_ONE),
                ..side()
            },
            "PyModuleDef_Init to be",
        ),
        (
            Side {
                has_own_state: true,
                ..side()
            },
            "a second mutable global",
        ),
        (
            Side {
                data: "_PyRuntime",
                ..side()
            },
            "data _PyRuntime is not available",
        ),
        (
            Side {
                relocation: MEMORY_OTHER,
                ..side()
            },
            "unsupported type MemoryAddrLocrelI32",
        ),
        (
            Side {
                from: "wasi_snapshot_preview1",
                ..side()
            },
            "imports wasi_snapshot_preview1.Py",
        ),
    ] {
        let error = side.build(&runtime, "refused", folder.path()).unwrap_err();
        let text = chain(&error);
        assert!(text.contains("module counted cannot be linked") && text.contains(why), "{text}");
        assert_eq!(error.code(), "bake.extension");
    }
    let mut weakref = side().wasm();
    let name = weakref.windows(7).position(|bytes| bytes == b"PyInit_").unwrap() + 7;
    weakref[name..name + 7].copy_from_slice(b"weakref");
    // Names that the interpreter has: built in, imported by the base, or not to be imported.
    for (path, why) in [
        ("math", "has the name of another module"),
        ("weakref", "the base has imported ['weakref'] already"),
        ("so long", "has a name that is not of letters"),
    ] {
        let error = build_with(&runtime, "refused", folder.path(), path, &weakref).unwrap_err();
        assert!(chain(&error).contains(why), "{path}: {}", chain(&error));
    }
    let error = build(&runtime, "refused", folder.path(), b"no module").unwrap_err();
    assert!(chain(&error).contains("cannot be parsed"), "{}", chain(&error));
    succeeded(&run_on(&runtime, Request::new("1").image("core")).outcome);
}
