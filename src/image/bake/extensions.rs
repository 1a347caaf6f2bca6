//! Links the native extensions of an image's packages to its interpreter.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::sync::PoisonError;
use std::time::Instant;

use belljar_passes::{Extension, LinkError, Linked, Place, Targets};
use serde::Deserialize;

use super::inittab::{self, Inittab};
use super::{LONGEST, Order, Oven};
use crate::artifact::Codes;
use crate::artifact::cache::seal::hash_bytes;
use crate::artifact::image::{self, Replaced};
use crate::image::error::BakeError;
use crate::limits::MAX_NATIVE_MODULE;
use crate::sandbox::{Factory, InstanceError};
use crate::util::cause::Cause;

/// A native module of a package.
#[derive(Clone, Debug)]
pub(crate) struct NativeModule {
    /// Its name, with those of its packages.
    pub name: String,
    pub file: Vec<u8>,
}

/// Ending of the file of a native module, after its name.
const ENDING: &str = ".cpython-315-belljar_wasm32.wasm";

impl NativeModule {
    /// Returns the module's name if `path` is the file of a native module.
    pub(super) fn name_of(path: &str) -> Option<String> {
        let name = path.strip_suffix(ENDING)?;
        Some(name.strip_suffix("/__init__").unwrap_or(name).replace('/', "."))
    }

    /// Whether every image imports a module that uses this one if it is there. It must then be
    /// linked before anything is imported.
    pub(crate) fn replaces_imported(&self) -> bool {
        self.name == "_decimal"
    }
}

/// Asks the guest for the addresses of its objects.
const TELL: &str = include_str!("../../../python-wasm/linking/addresses.py");

/// Changes the names that Python's own importer knows. Modules that are imported already would
/// hide the new ones.
const CHANGE: &str = "(lambda new, old, sys=__import__('sys'): setattr(sys, \
    'builtin_module_names', tuple(sorted({*sys.builtin_module_names} - old | new))) \
    if not (new | old) & sys.modules.keys() else \
    sys.exit(f'the base has imported {sorted((new | old) & sys.modules.keys())} already'))";

/// Addresses of the guest's objects.
#[derive(Default, Deserialize)]
struct Addresses {
    /// Addresses of data.
    addresses: HashMap<String, u32>,
    /// Values of variables, which have no known address.
    words: HashMap<String, u32>,
}

/// Removes the built-in modules of replaced packages. Links all modules, in order, and
/// returns their places.
pub(super) async fn link(
    oven: &mut Oven<'_>,
    factory: &Factory,
    order: &Order<'_>,
) -> Result<Vec<image::Extension>, BakeError> {
    let modules = order.native;
    // Another base lacks these already, and may have the modules that replace them.
    let replaced = if order.is_first() {
        order.replaced
    } else {
        &[]
    };
    if modules.is_empty() {
        if !replaced.is_empty() {
            let found = built_in(oven)?;
            publish(oven, &found, replaced, &[], Instant::now() + LONGEST).await?;
        }
        return Ok(Vec::new());
    }
    let none = || InstanceError::start(wasmtime::format_err!("no code is open for extensions"));
    let codes = factory.codes().ok_or_else(none)?;
    let before = &order.base.manifest.extensions;
    let targets = codes.targets()?;
    oven.turn("asking for addresses", TELL).await?;
    let told = {
        let told = oven.told.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::from_slice(&told)
    };
    let told = told.map_err(|e| oven.failed("asking for addresses", e.to_string()))?;
    // Before code of the extensions runs, which may change any memory.
    let found = built_in(oven)?;
    let names = found.iter().flat_map(|old| &old.names).map(String::as_str);
    let mut taken: BTreeSet<&str> = names.filter(|name| !is_of(replaced, name)).collect();
    for module in modules {
        let why = if !inittab::is_name(module.name.as_bytes()) {
            "has a name that is not of letters, digits, `_` and dots, or too long"
        } else if !taken.insert(&module.name) {
            "has the name of another module of the interpreter or these packages"
        } else if module.file.len() > MAX_NATIVE_MODULE {
            "is too large"
        } else {
            continue;
        };
        return Err(refused(&oven.recipe.name, &module.name, LinkError::Unsupported(why)));
    }
    let mut linking = Linking {
        codes,
        slot: before.iter().map(|extension| extension.slots.1).max().unwrap_or(targets.first_slot),
        targets,
        told,
        cells: BTreeMap::new(),
        inits: Vec::new(),
        deadline: Instant::now() + LONGEST,
    };
    let mut places = Vec::new();
    for module in modules {
        places.push(linking.link(oven, module).await?);
    }
    publish(oven, &found, replaced, &linking.inits, linking.deadline).await?;
    Ok(places)
}

/// Returns the lists of built-in modules.
fn built_in(oven: &mut Oven<'_>) -> Result<Vec<Inittab>, BakeError> {
    let found = inittab::find(oven.interpreter.instance().memory());
    found.ok_or_else(|| oven.failed("linking", "the list of built-in modules was not found".into()))
}

/// Whether a module belongs to one of these packages.
fn is_of(replaced: &[Replaced], module: &str) -> bool {
    let top = module.split('.').next().unwrap_or_default();
    replaced.iter().flat_map(|one| &one.modules).any(|name| name == top)
}

/// Replaces built-in modules: removes those of the packages, and adds those that these functions
/// create.
async fn publish(
    oven: &mut Oven<'_>,
    found: &[Inittab],
    replaced: &[Replaced],
    inits: &[(String, u32)],
    deadline: Instant,
) -> Result<(), BakeError> {
    let mut added = Vec::new();
    for (name, slot) in inits {
        let mut name = name.clone().into_bytes();
        name.push(0);
        added.push((oven.put(&name, deadline).await?, *slot));
    }
    let mut removed = BTreeSet::new();
    for old in found {
        let (gone, kept): (Vec<_>, Vec<_>) =
            old.names.iter().zip(&old.entries).partition(|(name, _)| is_of(replaced, name));
        removed.extend(gone.into_iter().map(|(name, _)| name));
        let kept = kept.into_iter().map(|(_, entry)| entry);
        let bytes: Vec<u8> = kept
            .chain(&added)
            .chain(&[(0, 0)])
            .flat_map(|(name, function)| [name.to_le_bytes(), function.to_le_bytes()])
            .flatten()
            .collect();
        let at = oven.put(&bytes, deadline).await?;
        for pointer in &old.pointers {
            oven.interpreter.instance().write(*pointer, &at.to_le_bytes())?;
        }
    }
    let names: BTreeSet<&String> = inits.iter().map(|(name, _)| name).collect();
    let [new, old] = [names, removed].map(|names| serde_json::to_string(&names));
    let new = new.map_err(|e| BakeError::System(e.into()))?;
    let old = old.map_err(|e| BakeError::System(e.into()))?;
    oven.turn("linking", &format!("{CHANGE}(set({new}), set({old}))")).await
}

struct Linking<'a> {
    codes: &'a Codes,
    targets: Targets,
    told: Addresses,
    /// The next free table slot.
    slot: u32,
    /// Addresses of variables made for extensions.
    cells: BTreeMap<String, u32>,
    /// Names and table slots of the functions that create modules.
    inits: Vec<(String, u32)>,
    /// Time limit of the calls that link and start all extensions.
    deadline: Instant,
}

fn refused(image: &str, module: &str, error: impl Error + Send + Sync + 'static) -> BakeError {
    BakeError::Extension {
        image: image.to_owned(),
        module: module.to_owned(),
        source: Cause::new(error),
    }
}

impl Linking<'_> {
    async fn link(
        &mut self,
        oven: &mut Oven<'_>,
        module: &NativeModule,
    ) -> Result<image::Extension, BakeError> {
        let image = oven.recipe.name.clone();
        let failed = |error: LinkError| refused(&image, &module.name, error);
        let extension = Extension::read(&module.file).map_err(failed)?;
        // Before the guest allocates anything.
        extension.check(&self.targets).map_err(failed)?;
        let mut data = BTreeMap::new();
        for name in extension.data() {
            let address = self.address(oven, name).await?;
            let address = address.ok_or_else(|| LinkError::Data {
                name: name.to_owned(),
            });
            data.insert(name.to_owned(), address.map_err(failed)?);
        }
        let needs = extension.needs();
        let memory = oven.interpreter.instance().allocate(needs.memory, self.deadline).await?;
        let why = "needs more memory than the interpreter can give it";
        let memory = memory.ok_or_else(|| failed(LinkError::Unsupported(why)))?;
        let place = Place {
            memory,
            slot: self.slot,
        };
        let linked = extension.link(place, &self.targets, &data).map_err(failed)?;
        let own = module.name.rsplit('.').next().unwrap_or_default();
        let init = linked.inits.get(own).copied().ok_or_else(|| LinkError::Init {
            name: own.to_owned(),
        });
        self.inits.push((module.name.clone(), init.map_err(failed)?));
        let sha256 = self.start(oven, &linked).await.map_err(|error| match error {
            BakeError::Code(error) => refused(&image, &module.name, error),
            error => error,
        })?;
        let first = self.slot;
        self.slot += needs.slots;
        Ok(image::Extension {
            module: module.name.clone(),
            file: hash_bytes(&module.file),
            linked: sha256,
            memory,
            slots: (first, self.slot),
        })
    }

    /// Compiles a linked extension and adds it to the interpreter. Returns its SHA-256.
    async fn start(&self, oven: &mut Oven<'_>, linked: &Linked) -> Result<String, BakeError> {
        let sha256 = self.codes.keep_extension(&linked.module)?;
        let native = self.codes.extension(&sha256)?;
        let native = native.ok_or_else(|| oven.failed("linking", "it vanished".into()))?;
        for (address, bytes) in &linked.data {
            oven.interpreter.instance().write(*address, bytes)?;
        }
        oven.interpreter.instance().extend(&native, linked.has_constructors, self.deadline).await?;
        Ok(sha256)
    }

    /// Returns the address of the interpreter's data, if it is known.
    async fn address(&mut self, oven: &mut Oven<'_>, name: &str) -> Result<Option<u32>, BakeError> {
        if let Some(address) = self.told.addresses.get(name).or_else(|| self.cells.get(name)) {
            return Ok(Some(*address));
        }
        if name == "errno" {
            let address = oven.interpreter.instance().errno(self.deadline).await?;
            self.cells.extend(address.map(|address| (name.to_owned(), address)));
            return Ok(address);
        }
        let Some(word) = self.told.words.get(name) else {
            return Ok(None);
        };
        let cell = oven.put(&word.to_le_bytes(), self.deadline).await?;
        self.cells.insert(name.to_owned(), cell);
        Ok(Some(cell))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_after_its_path() {
        let name = |path: &str| NativeModule::name_of(&format!("{path}{ENDING}"));
        assert_eq!(name("_decimal").unwrap(), "_decimal");
        assert_eq!(name("orjson/orjson").unwrap(), "orjson.orjson");
        assert_eq!(name("pack/__init__").unwrap(), "pack");
        assert_eq!(NativeModule::name_of("pack/module.wasm"), None);
    }
}
