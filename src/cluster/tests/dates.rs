//! Tests of nodes whose clocks show dates that are wrong by more than any session's life.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, json};

use super::super::claim::Claimed;
use super::super::host::Live;
use super::clock::{Clock, NodeClock};
use super::faults::{Fault, Planned, Wired};
use super::list::List;
use super::world::{ID, LEASE, ListNode, node};
use crate::session::Times;
use crate::store::{MemoryStore, Store};

const YEAR: i64 = 365 * 24 * 3_600_000;
const MINUTE: Duration = Duration::from_mins(1);
/// Maximum time of the store's operations.
const SLACK: Duration = Duration::from_secs(1);

fn nodes(clock: &Arc<Clock>, store: &Arc<dyn Store>) -> [ListNode; 3] {
    [0, YEAR, -YEAR].map(|ahead| {
        let mut own = NodeClock::new(clock);
        own.ahead = ahead;
        node(usize::from(ahead > 0) + 2 * usize::from(ahead < 0), Arc::clone(store), &own)
    })
}

async fn added(node: &ListNode) {
    let session = List::new(Vec::new()).woken(&node.host.clock, Times::default());
    node.add(ID, session, Map::new()).await.unwrap();
}

/// Returns the times of the session on this node, and first runs `run` in it, if given.
async fn times(node: &ListNode, run: Option<u64>) -> Times {
    let mut claim = Claimed::take(node, ID, run.is_some()).await.unwrap();
    let times = claim.session().times();
    if let Some(number) = run {
        assert!(claim.session().run(number).is_some());
    } else {
        let age = json!(times.age.as_millis());
        claim.set_about(Map::from_iter([("labels".to_owned(), age)]));
    }
    claim.release().await.unwrap();
    times
}

fn is_about(time: Duration, expected: Duration) -> bool {
    expected <= time && time <= expected + SLACK
}

/// Otherwise the session would exceed its limits forever: every other node would use the wrong
/// dates.
#[test]
fn a_wrong_date_ends_with_the_node_that_has_it() {
    for wrong in [1, 2] {
        Clock::run(|clock| async move {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let nodes = nodes(&clock, &store);
            added(&nodes[0]).await;
            for minute in 1..4 {
                clock.sleep(MINUTE).await;
                // Changes only the caller's data, without a run.
                times(&nodes[wrong], None).await;
                let right = times(&nodes[0], None).await;
                assert!(is_about(right.age, minute * MINUTE), "{right:?}");
                assert!(is_about(right.idle, minute * MINUTE), "{right:?}");
            }
            times(&nodes[wrong], Some(1)).await;
            clock.sleep(MINUTE).await;
            let right = times(&nodes[0], Some(2)).await;
            assert!(is_about(right.age, 4 * MINUTE), "{right:?}");
            // A run on a node whose clock is behind does not add to the idle time.
            assert!(right.idle <= 4 * MINUTE + SLACK, "{right:?}");
            clock.sleep(MINUTE).await;
            times(&nodes[wrong], None).await;
            let right = times(&nodes[0], None).await;
            assert!(is_about(right.age, 5 * MINUTE), "{right:?}");
        });
    }
}

/// Otherwise a change of the caller's data would reset the session's idle time.
#[test]
fn a_change_that_is_no_use_leaves_the_idle_time() {
    Clock::run(|clock| async move {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let nodes = [0, 1].map(|name| node(name, Arc::clone(&store), &NodeClock::new(&clock)));
        added(&nodes[0]).await;
        for minute in 1..5 {
            clock.sleep(MINUTE).await;
            let times = times(&nodes[minute % 2], None).await;
            assert!(is_about(times.idle, minute as u32 * MINUTE), "{times:?}");
        }
    });
}

/// The session is idle from the end of its run, not from the time of its storage.
#[test]
fn a_session_rests_while_the_store_fails() {
    Clock::run(|clock| async move {
        // Adding takes three operations, and taking two. The next operation writes the state, and
        // is retried a lease later.
        let faults = HashMap::from([(5, Fault::Before)]);
        let store: Arc<dyn Store> = Arc::new(Wired(Planned::new(&clock, faults)));
        let nodes = [0, 1].map(|name| node(name, Arc::clone(&store), &NodeClock::new(&clock)));
        added(&nodes[0]).await;
        times(&nodes[0], Some(1)).await;
        let rested = times(&nodes[1], None).await;
        assert!(rested.idle >= LEASE, "{rested:?}");
    });
}
