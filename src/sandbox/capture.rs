//! An interpreter between two runs: written down, and brought back to life.

use std::sync::Arc;
use std::time::Duration;

use belljar_files::Files;
use wasmtime::Val;

use super::{Descriptor, Instance, InstanceError, State};
use crate::artifact::PAGE;
use crate::artifact::image::Image;
use crate::memory::{PageStore, Pages};

/// An interpreter at rest, apart from its image and its files.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// What differs from the image.
    pub pages: Arc<Pages>,
    /// Bytes of memory.
    pub memory: usize,
    pub stack_pointer: i32,
    /// What it has open of the host.
    pub hosts: Vec<Descriptor>,
    /// How long it has lived, as its monotonic clock says.
    pub lived: Duration,
    /// How many blocks of its random numbers it used, where these are repeatable.
    pub random_blocks: u64,
}

impl Kept {
    /// What starts from an image that nothing has run in yet.
    pub(crate) fn fresh(image: &Image) -> Self {
        Self {
            memory: image.memory.len(),
            stack_pointer: image.manifest.stack_pointer,
            ..Self::nothing()
        }
    }

    /// No interpreter at all.
    pub(crate) fn nothing() -> Self {
        Self {
            pages: Arc::default(),
            memory: 0,
            stack_pointer: 0,
            hosts: Vec::new(),
            lived: Duration::ZERO,
            random_blocks: 0,
        }
    }
}

impl Instance {
    /// Brings what was kept back to life in an instance that has just been made from its image. It
    /// blocks, for as long as there are open files and pages of memory.
    pub(crate) async fn resume(&mut self, kept: &Kept) -> Result<(), InstanceError> {
        let more = kept.memory.saturating_sub(self.memory.data_size(&self.store)) / PAGE;
        if more > 0 {
            // It had been allowed to it before.
            self.store.data_mut().limiter.armed = false;
            let grown = self.memory.grow_async(&mut self.store, more as u64).await;
            self.store.data_mut().limiter.armed = true;
            grown.map_err(InstanceError::start)?;
        }
        self.tracker.restore(self.memory.data_mut(&mut self.store), &kept.pages)?;
        self.stack_pointer
            .set(&mut self.store, Val::I32(kept.stack_pointer))
            .map_err(InstanceError::start)?;
        let state = self.store.data_mut();
        if kept.pages.count() > 0 {
            // What was set aside in the image was freed by the run that had it.
            state.answer = None;
            self.run_source = None;
        }
        state.reopen_hosts(&kept.hosts).await
    }

    /// Puts its memory back to what was kept last. False when that cannot be done: it was not kept
    /// yet, has grown, or nobody knows what was written.
    pub(crate) fn put_back(&mut self, kept: &Kept) -> Result<bool, InstanceError> {
        if kept.pages.count() == 0 || self.memory_bytes() != kept.memory {
            return Ok(false);
        }
        let memory = self.memory.data_mut(&mut self.store);
        if !self.tracker.put_back(memory, &kept.pages)? {
            return Ok(false);
        }
        let stack_pointer = Val::I32(kept.stack_pointer);
        self.stack_pointer.set(&mut self.store, stack_pointer).map_err(InstanceError::start)?;
        Ok(true)
    }

    /// Its files, as they are now, with all that it has open.
    pub(crate) fn files(&self) -> &Files {
        &self.state().files
    }

    /// The same, to be changed by its host.
    pub(crate) fn files_mut(&mut self) -> &mut Files {
        &mut self.store.data_mut().files
    }

    /// The time in nanoseconds since 1970, on its clock.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.state().now(true).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether it has something open of the host that it was not given.
    pub(crate) fn has_open_host_files(&self) -> bool {
        self.state().hosts.has_open()
    }

    /// Puts its files back to what they were, with their bounds as they are now.
    pub(crate) fn put_back_files(&mut self, before: &Files) {
        let files = self.files_mut();
        let limits = files.limits();
        *files = before.clone();
        files.set_limits(limits);
    }

    /// What it has open of the host. It blocks.
    pub(crate) async fn host_files(&mut self) -> Result<Vec<Descriptor>, InstanceError> {
        self.store.data_mut().host_files().await
    }

    /// How many bytes of its memory [`keep`](Self::keep) has to look at.
    pub(crate) fn look(&mut self) -> usize {
        self.tracker.look(self.memory.data(&self.store))
    }

    /// Writes down what it is now, with what it has open of the host; `before` is what it was resumed from or
    /// kept as last. It takes time in proportion to what has changed since, and does not yield.
    pub(crate) fn keep(
        &mut self,
        before: &Kept,
        hosts: Vec<Descriptor>,
        store: &Arc<PageStore>,
    ) -> Result<Kept, InstanceError> {
        let memory = self.memory.data_mut(&mut self.store);
        let pages = self.tracker.capture(memory, &before.pages, store)?;
        let memory = memory.len();
        let stack_pointer = self.stack_pointer();
        let state = self.state();
        Ok(Kept {
            pages,
            memory,
            hosts,
            lived: state.now(false),
            random_blocks: state.random.as_ref().map_or(0, super::SeededBytes::blocks),
            stack_pointer,
        })
    }

    /// Begins a further run.
    pub(crate) fn begin(&mut self) {
        let memory = self.memory.data_size(&self.store);
        let State {
            files,
            began,
            frames,
            limiter,
            ..
        } = self.store.data_mut();
        *began = files.version();
        *frames = 0;
        limiter.refused = false;
        limiter.peak = memory.saturating_sub(limiter.image) as u64;
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.data_size(&self.store)
    }
}
