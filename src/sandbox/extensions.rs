//! Extensions: instances that share the state of the main module's.

use std::time::{Duration, Instant};

use belljar_passes::{CONSTRUCTORS, LINKED, MAIN, REFUEL};
use wasmtime::{AsContextMut, Extern, Module, Store, format_err};

use super::factory::at_once;
use super::{Instance, InstanceError, State, fuel};

/// Creates an instance of an extension. It writes only to the table: memory and stack pointer are
/// those of the image.
pub(super) fn instantiate(
    store: &mut Store<State>,
    main: &wasmtime::Instance,
    extension: &Module,
) -> wasmtime::Result<wasmtime::Instance> {
    let mut imports: Vec<Extern> = Vec::new();
    for import in extension.imports() {
        let found = match (import.module(), import.name()) {
            REFUEL => Some(fuel::refuel(&mut *store).into()),
            (MAIN, name) => main.get_export(&mut *store, name),
            _ => None,
        };
        let missing = || {
            let name = import.name();
            format_err!("an extension needs {name}, which the code of this tier does not have")
        };
        imports.push(found.ok_or_else(missing)?);
    }
    at_once(wasmtime::Instance::new_async(store, extension, &imports))
}

impl Instance {
    /// Adds an extension whose data is in the memory, and runs its constructors.
    pub(crate) async fn extend(
        &mut self,
        extension: &Module,
        has_constructors: bool,
    ) -> Result<(), InstanceError> {
        let made = instantiate(&mut self.store, &self.main, extension);
        let made = made.map_err(InstanceError::start)?;
        if has_constructors {
            let constructors = made
                .get_typed_func::<(), ()>(&mut self.store, CONSTRUCTORS)
                .map_err(InstanceError::start)?;
            self.counter
                .begin(&mut self.store, super::drive::SLICE)
                .map_err(InstanceError::start)?;
            let call = constructors.call_async(&mut self.store, ());
            let called = tokio::time::timeout_at((Instant::now() + LONGEST).into(), call).await;
            called.unwrap_or_else(|e| Err(e.into())).map_err(InstanceError::start)?;
        }
        Ok(())
    }

    /// Returns the address of the C library's `errno`: the word that two failing calls set to their
    /// error numbers.
    pub(crate) async fn errno(&mut self) -> Result<Option<u32>, InstanceError> {
        const INVALID: u32 = 28;
        const RANGE: u32 = 68;
        let text = self.copy_in(b"99999999999\0").await?;
        let name = format!("{LINKED}strtol");
        let convert = self.main.get_typed_func::<(u32, u32, u32), u32>(&mut self.store, &name);
        let convert = convert.map_err(InstanceError::start)?;
        let called = convert.call_async(&mut self.store, (text, 0, 1)).await;
        called.map_err(InstanceError::start)?;
        let before = self.memory().to_vec();
        let called = convert.call_async(&mut self.store, (text, 0, 10)).await;
        called.map_err(InstanceError::start)?;
        let (before, after) = (before.as_chunks::<4>().0, self.memory().as_chunks::<4>().0);
        let mut found = std::iter::zip(before, after).enumerate().filter(|(_, (old, new))| {
            (u32::from_le_bytes(**old), u32::from_le_bytes(**new)) == (INVALID, RANGE)
        });
        let first = found.next().map(|(index, _)| index as u32 * 4);
        Ok(first.filter(|_| found.next().is_none()))
    }

    /// Writes to the guest's memory.
    pub(crate) fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), InstanceError> {
        let written = self.memory.write(self.store.as_context_mut(), at as usize, bytes);
        written.map_err(|e| InstanceError::start(e.into()))
    }
}

/// Time limit of an extension's constructors.
const LONGEST: Duration = Duration::from_mins(1);
