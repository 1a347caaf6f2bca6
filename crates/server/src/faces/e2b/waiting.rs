//! Executions that wait for their turn. Each is a task that holds its code, so an owner has only so many.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;

use super::fault::Fault;
use super::traits::lock;
use crate::service::owner::Owner;

/// The most executions of one owner that wait, and the most bytes of their code and environment.
const MAX_EXECUTIONS: usize = 256;
const MAX_BYTES: usize = 64 << 20;

/// The executions of all owners that wait, by the owner's name. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<HashMap<String, Counted>>>);

#[derive(Clone, Copy, Default)]
struct Counted {
    executions: usize,
    bytes: usize,
}

/// An execution that waits, until this is dropped.
pub(super) struct Place {
    waiting: Waiting,
    owner: String,
    bytes: usize,
}

impl Waiting {
    /// Has an execution wait, of so many bytes.
    pub(super) fn enter(&self, owner: &Owner, bytes: usize) -> Result<Place, Fault> {
        let mut all = lock(&self.0);
        let counted = all.get(owner.name()).copied().unwrap_or_default();
        let is_full = counted.executions >= MAX_EXECUTIONS
            || (counted.executions > 0 && counted.bytes + bytes > MAX_BYTES);
        if is_full {
            let message = "too many executions of this key wait already";
            return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        let more = Counted {
            executions: counted.executions + 1,
            bytes: counted.bytes + bytes,
        };
        all.insert(owner.name().to_owned(), more);
        Ok(Place {
            waiting: self.clone(),
            owner: owner.name().to_owned(),
            bytes,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = lock(&self.waiting.0);
        if let Some(counted) = all.get_mut(&self.owner) {
            counted.executions -= 1;
            counted.bytes -= self.bytes;
            if counted.executions == 0 {
                all.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::owner::KeyLimits;

    /// Any number of executions could wait, each with eight megabytes of code.
    #[test]
    fn an_owner_has_so_many_executions_waiting_and_takes_no_room_from_another() {
        let [one, two] = ["one", "two"].map(|name| Owner::new(name, KeyLimits::default()));
        for bytes in [0, 8 << 20] {
            let waiting = Waiting::default();
            let mut places = Vec::new();
            while let Ok(place) = waiting.enter(&one, bytes) {
                places.push(place);
                assert!(places.len() <= MAX_EXECUTIONS);
            }
            assert!(places.len() * bytes <= MAX_BYTES && !places.is_empty());
            assert!(waiting.enter(&two, bytes).is_ok());
            places.pop();
            assert!(waiting.enter(&one, bytes).is_ok());
            drop(places);
            assert!(lock(&waiting.0).is_empty());
        }
    }
}
