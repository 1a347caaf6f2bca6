//! Saves an interpreter between two runs, and resumes it.

use std::sync::Arc;
use std::time::Duration;

use belljar_files::Files;
use belljar_memory::{PageStore, Pages};
use wasmtime::Val;

use super::{Descriptor, Instance, InstanceError, State};
use crate::artifact::PAGE;
use crate::artifact::image::Image;

/// An interpreter at rest, without its image and its files.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Differences from the image.
    pub pages: Arc<Pages>,
    /// Size of the memory, in bytes.
    pub memory: usize,
    pub stack_pointer: i32,
    /// Open files of the host.
    pub hosts: Vec<Descriptor>,
    /// Age of the interpreter on its monotonic clock.
    pub lived: Duration,
    /// Number of blocks of random numbers used, in a deterministic session.
    pub random_blocks: u64,
}

impl Kept {
    /// Creates the state of an unused image.
    pub(crate) fn fresh(image: &Image) -> Self {
        Self {
            memory: image.memory.len(),
            stack_pointer: image.manifest.stack_pointer,
            ..Self::nothing()
        }
    }

    /// Creates an empty state.
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
    /// Resumes a saved state in an instance just created from its image. Blocks for a time
    /// proportional to its open files and pages.
    pub(crate) async fn resume(&mut self, kept: &Kept) -> Result<(), InstanceError> {
        let more = kept.memory.saturating_sub(self.memory.data_size(&self.store)) / PAGE;
        if more > 0 {
            // The growth was allowed before.
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
            // The run that was saved has freed the memory prepared in the image.
            state.answer = None;
            self.run_source = None;
        }
        state.reopen_hosts(&kept.hosts).await
    }

    /// Restores the memory to the last saved state. Returns false if that is impossible: nothing
    /// was saved, the memory has grown, or writes are not tracked.
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

    /// Returns the guest's files, including open files.
    pub(crate) fn files(&self) -> &Files {
        &self.state().files
    }

    /// Returns the guest's files, for changes by the host.
    pub(crate) fn files_mut(&mut self) -> &mut Files {
        &mut self.store.data_mut().files
    }

    /// Returns the time on the guest's clock, in nanoseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.state().now(true).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether it has opened files of the host.
    pub(crate) fn has_open_host_files(&self) -> bool {
        self.state().hosts.has_open()
    }

    /// Restores the files to `before`, but keeps their current limits.
    pub(crate) fn put_back_files(&mut self, before: &Files) {
        let files = self.files_mut();
        let limits = files.limits();
        *files = before.clone();
        files.set_limits(limits);
    }

    /// Returns the open files of the host. Blocks.
    pub(crate) async fn host_files(&mut self) -> Result<Vec<Descriptor>, InstanceError> {
        self.store.data_mut().host_files().await
    }

    /// Returns how many bytes of memory [`keep`](Self::keep) must compare.
    pub(crate) fn look(&mut self) -> usize {
        self.tracker.look(self.memory.data(&self.store))
    }

    /// Saves the current state, with the open files of the host. `before` is the state that was
    /// last resumed or saved. Takes time proportional to the changes since, and does not yield.
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

    /// Starts another run.
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

    /// Returns the size of the memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.data_size(&self.store)
    }
}
