//! Fails at every operation of a scenario, once and twice in a row, in every way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::clock::{Clock, NodeClock};
use super::faults::{Fault, Planned, Wired};
use super::world::{How, LEASE, ListNode, Log, add, node};
use crate::store::Store;

const SOON: Duration = Duration::from_millis(5);

/// Result of a scenario.
struct Told {
    /// Number of operations before the final check.
    count: usize,
    losses: Vec<String>,
    /// Number of interrupted runs.
    interrupted: usize,
}

type Scenario = fn(HashMap<usize, Fault>) -> Told;

/// Creates two nodes and their store.
fn two_nodes(
    clock: &Arc<Clock>,
    plan: HashMap<usize, Fault>,
) -> (Arc<Wired<Planned>>, Vec<ListNode>) {
    let store = Arc::new(Wired(Planned::new(clock, plan)));
    let nodes = (0..2)
        .map(|n| node(n, Arc::clone(&store) as Arc<dyn Store>, &NodeClock::new(clock)))
        .collect();
    (store, nodes)
}

/// Two nodes with a client each, and a client that interrupts runs and removes strays.
fn scenario(plan: HashMap<usize, Fault>) -> Told {
    Clock::run(|clock| async move {
        let (store, nodes) = two_nodes(&clock, plan);
        let log = Log::default();
        // After an error, the session may not exist, so there may be nothing to check.
        let is_added = add(&nodes[0]).await;
        if is_added {
            let (one, other) = (&nodes[0], &nodes[1]);
            let first = async {
                log.run(one, How::Durably, SOON).await;
                log.run(one, How::Behind, SOON).await;
                log.touch(one).await;
                log.run(one, How::Durably, LEASE).await;
                log.read(one).await;
            };
            let second = async {
                clock.sleep(10 * SOON).await;
                log.run(other, How::Durably, SOON).await;
                log.read(other).await;
                log.touch(other).await;
                log.run(other, How::Dropped, SOON).await;
                log.run(other, How::Behind, SOON).await;
            };
            let third = async {
                clock.sleep(LEASE / 2).await;
                log.interrupt(other).await;
                let _ = one.remove_strays(Duration::ZERO).await;
            };
            tokio::join!(first, second, third);
        }
        let count = store.0.count();
        store.0.heal();
        if is_added {
            log.check(&clock, &nodes).await;
        }
        Told {
            count,
            losses: log.losses(),
            interrupted: log.interrupted(),
        }
    })
}

/// One node removes a session that the other uses.
fn removal(plan: HashMap<usize, Fault>) -> Told {
    Clock::run(|clock| async move {
        let (store, nodes) = two_nodes(&clock, plan);
        let log = Log::default();
        let is_added = add(&nodes[0]).await;
        if is_added {
            let (one, other) = (&nodes[0], &nodes[1]);
            let first = async {
                log.run(one, How::Behind, SOON).await;
                log.run(one, How::Durably, LEASE).await;
                log.run(one, How::Durably, SOON).await;
            };
            let second = async {
                clock.sleep(10 * SOON).await;
                log.interrupt(other).await;
                log.remove(other).await;
                log.run(other, How::Durably, SOON).await;
                let _ = other.remove_strays(Duration::ZERO).await;
            };
            tokio::join!(first, second);
        }
        let count = store.0.count();
        store.0.heal();
        if is_added {
            log.check_removed(&clock, &nodes).await;
        }
        Told {
            count,
            losses: log.losses(),
            interrupted: log.interrupted(),
        }
    })
}

const ALL: [Scenario; 2] = [scenario, removal];

#[test]
fn nothing_is_told_as_lost_where_nothing_fails() {
    let told = scenario(HashMap::new());
    let (count, losses) = (told.count, told.losses);
    assert!(count > 50 && losses.is_empty(), "{count} operations, {losses:?}");
    assert_eq!(told.interrupted, 1, "a run of another node is not interrupted");
    let told = removal(HashMap::new());
    assert!(told.count > 20 && told.losses.is_empty(), "{} operations", told.count);
}

#[test]
fn a_fault_at_any_operation_harms_nothing() {
    for scenario in ALL {
        let Told { count, .. } = scenario(HashMap::new());
        for at in 0..count + 10 {
            for fault in Fault::ALL {
                in_words(&[(at, fault)], || scenario(HashMap::from([(at, fault)])));
            }
        }
    }
}

#[test]
fn two_faults_in_a_row_at_any_operation_harm_nothing() {
    for scenario in ALL {
        let Told { count, .. } = scenario(HashMap::new());
        for at in 0..count + 10 {
            for first in Fault::ALL {
                for second in Fault::ALL {
                    let plan = [(at, first), (at + 1, second)];
                    in_words(&plan, || scenario(HashMap::from(plan)));
                }
            }
        }
    }
}

/// Adds the faults of a scenario to its panic message.
fn in_words<T>(plan: &[(usize, Fault)], work: impl FnOnce() -> T) -> T {
    struct Named<'a>(&'a [(usize, Fault)]);

    impl Drop for Named<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("with these faults, by the number of the operation: {:?}", self.0);
            }
        }
    }

    let _named = Named(plan);
    work()
}
