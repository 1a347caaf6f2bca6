//! Extensions: instances that share the state of the main module's.

use std::time::Instant;

use belljar_passes::{CONSTRUCTORS, LINKED, MAIN, REFUEL};
use wasmtime::{
    AsContextMut, Extern, Module, Store, TypedFunc, WasmParams, WasmResults, format_err,
};

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
        deadline: Instant,
    ) -> Result<(), InstanceError> {
        let made = instantiate(&mut self.store, &self.main, extension);
        let made = made.map_err(InstanceError::start)?;
        if has_constructors {
            let constructors = made
                .get_typed_func::<(), ()>(&mut self.store, CONSTRUCTORS)
                .map_err(InstanceError::start)?;
            self.call_by(deadline, &constructors, ()).await?;
        }
        Ok(())
    }

    /// Allocates zeroed memory of the guest. Returns `None` if its memory is exhausted.
    pub(crate) async fn allocate(
        &mut self,
        length: u32,
        deadline: Instant,
    ) -> Result<Option<u32>, InstanceError> {
        let allocate = self.allocate.clone();
        let at = self.call_by(deadline, &allocate, length).await?;
        if at == 0 {
            return Ok(None);
        }
        let memory = self.memory.data_mut(&mut self.store);
        let end = (at as usize).checked_add(length as usize);
        let memory = end.and_then(|end| memory.get_mut(at as usize..end));
        let outside =
            || InstanceError::start(format_err!("the guest allocated no memory of its own"));
        memory.ok_or_else(outside)?.fill(0);
        Ok(Some(at))
    }

    /// Calls a function outside of a turn. An extension may have changed what it does, so that it
    /// may never return.
    async fn call_by<P: WasmParams + Sync, R: WasmResults + Sync>(
        &mut self,
        deadline: Instant,
        function: &TypedFunc<P, R>,
        parameters: P,
    ) -> Result<R, InstanceError> {
        let begun = self.counter.begin(&mut self.store, super::drive::SLICE);
        begun.map_err(InstanceError::start)?;
        let call = function.call_async(&mut self.store, parameters);
        let called = tokio::time::timeout_at(deadline.into(), call).await;
        called.unwrap_or_else(|e| Err(e.into())).map_err(InstanceError::start)
    }

    /// Returns the address of the C library's `errno`: the word that two failing calls set to their
    /// error numbers.
    pub(crate) async fn errno(&mut self, deadline: Instant) -> Result<Option<u32>, InstanceError> {
        const INVALID: u32 = 28;
        const RANGE: u32 = 68;
        const TEXT: &[u8] = b"99999999999\0";
        let Some(text) = self.allocate(TEXT.len() as u32, deadline).await? else {
            return Ok(None);
        };
        self.write(text, TEXT)?;
        let name = format!("{LINKED}strtol");
        let convert = self.main.get_typed_func::<(u32, u32, u32), u32>(&mut self.store, &name);
        let convert = convert.map_err(InstanceError::start)?;
        self.call_by(deadline, &convert, (text, 0, 1)).await?;
        let before = self.memory().to_vec();
        self.call_by(deadline, &convert, (text, 0, 10)).await?;
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
