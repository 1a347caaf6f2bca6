//! Nodes and their clients, with the invariants that must hold whatever fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Map;

use super::super::NodeOptions;
use super::super::claim::{Claimed, Read};
use super::super::node::Node;
use super::clock::{Clock, NodeClock};
use super::list::{List, Lists};
use crate::error::Error;
use crate::session::SessionError;
use crate::store::Store;

pub(super) const LEASE: Duration = Duration::from_millis(600);
pub(super) const ID: &str = "s";

pub(super) type ListNode = Arc<Node<Lists>>;

/// How a run is released.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Durably,
    Behind,
    Dropped,
}

/// What the client of a run was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The run is in the store.
    Stored,
    /// The run is lost.
    Lost,
    /// The store failed, so the result is unknown.
    Unsure,
    /// The run was answered before it was stored; contains its number.
    Answered(u64),
}

/// Everything that clients were told.
#[derive(Default)]
pub(super) struct Log {
    next: Mutex<u64>,
    told: Mutex<BTreeMap<u64, Told>>,
    /// Losses that outcomes reported, with the number of runs in the session at that time.
    losses: Mutex<Vec<(String, usize)>>,
    /// Number of requested interruptions, and the interrupted runs.
    interruptions: Mutex<(usize, BTreeSet<u64>)>,
    /// Whether a client was told that the session is removed.
    is_removed: AtomicBool,
}

pub(super) fn node(name: usize, store: Arc<dyn Store>, clock: &NodeClock) -> ListNode {
    let options = NodeOptions::default().name(format!("n{name}")).lease(LEASE).patience(2 * LEASE);
    let host = Lists {
        clock: clock.clone(),
    };
    Arc::new(Node::new(host, store, options).unwrap())
}

pub(super) async fn add(node: &ListNode) -> bool {
    node.add(ID, List::new(Vec::new()), Map::new()).await.is_ok()
}

impl Log {
    /// Performs a client's run of this duration. Returns whether it started.
    pub(super) async fn run(&self, node: &ListNode, how: How, time: Duration) -> bool {
        let Ok(claim) = Claimed::take(node, ID, true).await else {
            return false;
        };
        let number = {
            let mut next = self.next.lock().unwrap();
            *next += 1;
            *next
        };
        let session = claim.session().clone();
        let before = session.runs().len();
        self.work(node, &session, number, time).await;
        let is_removed = self.is_removed.load(Ordering::Relaxed);
        let losses = session.run(number).expect("a claim does not let its client run anything");
        self.losses.lock().unwrap().extend(losses.into_iter().map(|loss| (loss, before)));
        let answered = Told::Answered(before as u64 + 1);
        let told = match how {
            How::Dropped => {
                drop(claim);
                answered
            }
            How::Durably => told(&claim.release().await, Told::Stored),
            How::Behind => told(&claim.release_behind().await, answered),
        };
        assert!(session.run(0).is_none(), "a handle outlives its claim");
        let is_stored = told == Told::Stored;
        assert!(!(is_removed && is_stored), "stored in a session that is removed");
        self.told.lock().unwrap().insert(number, told);
        true
    }

    /// Waits for this duration, unless interrupted.
    async fn work(&self, node: &ListNode, session: &List, number: u64, time: Duration) {
        let clock = &node.host.clock;
        let begun = clock.now();
        while !session.is_interrupted(number) {
            let left = time.saturating_sub(clock.now().saturating_duration_since(begun));
            if left.is_zero() {
                break;
            }
            clock.sleep(left.min(LEASE / 20)).await;
        }
        if session.is_interrupted(number) {
            self.interruptions.lock().unwrap().1.insert(number);
        }
        session.rest();
    }

    /// Requests an interruption of the current run.
    pub(super) async fn interrupt(&self, node: &ListNode) {
        self.interruptions.lock().unwrap().0 += 1;
        let _ = node.interrupt(ID).await;
    }

    /// Removes the session, and retries until it succeeds.
    pub(super) async fn remove(&self, node: &ListNode) {
        for _ in 0..8 {
            if node.remove(ID).await.is_ok() {
                self.is_removed.store(true, Ordering::Relaxed);
                return;
            }
            node.host.clock.sleep(LEASE / 4).await;
        }
    }

    /// Takes the session and releases it unchanged.
    pub(super) async fn touch(&self, node: &ListNode) {
        if let Ok(claim) = Claimed::take(node, ID, false).await {
            let _ = claim.release_unchanged().await;
        }
    }

    pub(super) async fn read(&self, node: &ListNode) {
        if let Ok(reading) = Read::begin(node, ID).await {
            assert!(reading.session().run(0).is_none(), "a reader changes a session");
        }
    }

    /// Checks the invariants once the store is reachable again.
    pub(super) async fn check(&self, clock: &Arc<Clock>, nodes: &[ListNode]) {
        clock.sleep(8 * LEASE).await;
        for node in nodes {
            let settled = clock.within(20 * LEASE, node.settled()).await;
            assert!(settled.is_some(), "{} holds something for ever", node.name());
        }
        for node in nodes {
            let began = self.run(node, How::Durably, Duration::ZERO).await;
            assert!(began, "{} cannot take what nobody holds", node.name());
        }
        let mut runs = None;
        for node in nodes {
            let reading = Read::begin(node, ID).await.expect("it cannot be read");
            let found = reading.session().runs();
            assert_eq!(*runs.get_or_insert_with(|| found.clone()), found, "nodes read differently");
        }
        let runs = runs.unwrap_or_default();
        nodes[0].remove_strays(Duration::ZERO).await.expect("the store works");
        let left = nodes[0].store.list("sessions").await.expect("the store works");
        assert_eq!(left.len(), 2, "{left:?}");
        let losses = self.losses.lock().unwrap();
        for (loss, before) in &*losses {
            let lost =
                loss.strip_prefix("run ").and_then(|rest| rest.split(' ').next()?.parse().ok());
            if let Some(lost) = lost {
                let _: usize = lost;
                assert!(*before < lost, "told as lost and stored: {loss}, {runs:?}");
            }
        }
        for (number, told) in &*self.told.lock().unwrap() {
            let is_stored = runs.contains(number);
            match told {
                Told::Stored => assert!(is_stored, "{number} was told as stored: {runs:?}"),
                Told::Lost => assert!(!is_stored, "{number} was told as lost: {runs:?}"),
                Told::Unsure => {}
                Told::Answered(execution) => {
                    let loss = format!("run {execution} was lost");
                    let is_told = losses.iter().any(|(told, _)| told.starts_with(&loss));
                    assert!(is_stored || is_told, "{number} was lost, and nobody was told");
                }
            }
        }
        // A run is also interrupted if its node has lost the session. It is not stored then.
        let (asked, interrupted) = &*self.interruptions.lock().unwrap();
        let stored = interrupted.iter().filter(|run| runs.contains(run)).count();
        assert!(stored <= *asked, "interrupted, and nobody asked: {interrupted:?}");
        assert!(!runs.contains(&0) && runs.is_sorted_by(|one, next| one != next), "{runs:?}");
    }

    /// Checks the invariants of a removed session, once the store is reachable again.
    pub(super) async fn check_removed(&self, clock: &Arc<Clock>, nodes: &[ListNode]) {
        clock.sleep(8 * LEASE).await;
        for node in nodes {
            let settled = clock.within(20 * LEASE, node.settled()).await;
            assert!(settled.is_some(), "{} holds something for ever", node.name());
        }
        nodes[0].remove(ID).await.expect("the store works");
        for node in nodes {
            let taken = Claimed::take(node, ID, true).await.err();
            let is_none = matches!(taken, Some(Error::Session(SessionError::NotFound { .. })));
            assert!(is_none, "{} finds what was removed: {taken:?}", node.name());
            assert!(!node.interrupt(ID).await.expect("the store works"));
        }
        nodes[1].remove_strays(Duration::ZERO).await.expect("the store works");
        let left = nodes[0].store.list("sessions").await.expect("the store works");
        assert_eq!(left, [], "something of a removed session stays");
    }

    /// Returns the number of interrupted runs.
    pub(super) fn interrupted(&self) -> usize {
        self.interruptions.lock().unwrap().1.len()
    }

    /// Returns the reported losses.
    pub(super) fn losses(&self) -> Vec<String> {
        self.losses.lock().unwrap().iter().map(|(loss, _)| loss.clone()).collect()
    }
}

fn told(released: &Result<(), Error>, otherwise: Told) -> Told {
    match released {
        Ok(()) => otherwise,
        Err(Error::Session(SessionError::Taken { .. })) => Told::Lost,
        Err(_) => Told::Unsure,
    }
}
