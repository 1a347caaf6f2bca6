//! Tests of nodes with leases above the maximum, and of callers that stop waiting.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::NodeOptions;
use super::super::claim::Claimed;
use super::super::node::Node;
use super::clock::{Clock, NodeClock};
use super::faults::{Fault, Planned, Wired};
use super::list::Lists;
use super::world::{ID, ListNode, add};
use crate::error::Error;
use crate::session::SessionError;
use crate::store::{MemoryStore, Store};

fn node(name: &str, store: &Arc<MemoryStore>, clock: &Arc<Clock>) -> ListNode {
    let options = NodeOptions::default().name(name).lease(Duration::MAX);
    let host = Lists {
        clock: NodeClock::new(clock),
    };
    let store = Arc::clone(store) as Arc<dyn Store>;
    let mut node = Node::new(host, store, options).unwrap();
    node.options.patience = Duration::from_mins(70);
    Arc::new(node)
}

/// Other nodes take a session over after an hour without a renewal, whatever lease its node
/// requested.
#[test]
fn a_node_that_asks_for_a_long_lease_renews_it_in_time() {
    Clock::run(|clock| async move {
        let store = Arc::new(MemoryStore::new());
        let (one, other) = (node("one", &store, &clock), node("other", &store, &clock));
        assert!(add(&one).await);
        let claim = Claimed::take(&one, ID, true).await.unwrap();
        let refused = Claimed::take(&other, ID, true).await.err();
        assert!(matches!(refused, Some(Error::Session(SessionError::Elsewhere { .. }))));
        claim.release().await.unwrap();
    });
}

#[test]
fn no_time_is_too_long_for_a_sweep() {
    Clock::run(|clock| async move {
        let node = node("one", &Arc::default(), &clock);
        node.sweep(Duration::MAX);
    });
}

/// Otherwise the session's id would stay taken: no caller could close or delete the session, and
/// its node could not wake it.
#[test]
fn a_session_whose_caller_is_gone_is_added_all_the_same() {
    for waited in 0..6 {
        Clock::run(|clock| async move {
            let store: Arc<dyn Store> = Arc::new(Wired(Planned::new(&clock, HashMap::new())));
            let node = super::world::node(0, store, &NodeClock::new(&clock));
            let time = Duration::from_millis(waited);
            let is_added = clock.within(time, add(&node)).await;
            // Each of the three operations takes a millisecond.
            assert_eq!(is_added.is_some(), waited > 3, "{waited}");
            clock.sleep(Duration::from_millis(20)).await;
            assert_eq!(node.places().len(), 1);
            let claim = Claimed::take(&node, ID, true).await.unwrap();
            assert_eq!(node.counts.found.load(Ordering::Relaxed), 1, "it was woken again");
            claim.release().await.unwrap();
        });
    }
}

/// If the store does not answer, a session is taken or released unchanged, and no change is lost:
/// no outcome reports that "a change was lost".
#[test]
fn what_was_not_changed_is_not_told_as_lost() {
    // Adding takes three operations. Then the record is read, replaced, and read again after a
    // failure.
    let taking = [(4, Fault::After), (5, Fault::Before)];
    // To release the session unchanged, the record is replaced, and read again after a failure.
    let giving_back = [Fault::Before, Fault::After, Fault::Deferred, Fault::Lost]
        .map(|fault| [(5, fault), (6, Fault::Before)]);
    for plan in giving_back.into_iter().chain([taking]) {
        for is_run in [true, false] {
            Clock::run(|clock| async move {
                let store = Arc::new(Wired(Planned::new(&clock, HashMap::from(plan))));
                let shared = Arc::clone(&store) as Arc<dyn Store>;
                let node = super::world::node(0, shared, &NodeClock::new(&clock));
                assert!(add(&node).await);
                match Claimed::take(&node, ID, is_run).await {
                    Ok(claim) => assert!(claim.release_unchanged().await.is_err(), "{plan:?}"),
                    Err(_) => assert_eq!(plan, taking),
                }
                assert!(store.0.count() > plan[1].0, "{plan:?}: it did not fail");
                let claim = Claimed::take(&node, ID, true).await.unwrap();
                assert_eq!(claim.session().run(1), Some(Vec::new()), "{plan:?}");
                claim.release().await.unwrap();
            });
        }
    }
}
