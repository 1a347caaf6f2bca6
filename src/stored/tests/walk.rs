//! Fails at every operation of a scenario, once and twice in a row, in every way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::clock::{Clock, NodeClock};
use super::faults::{Fault, Planned, Wired};
use super::world::{How, LEASE, Log, add, node};
use crate::store::Store;

const SOON: Duration = Duration::from_millis(5);

/// Two nodes with a client each. Returns how many operations there were before the end was checked,
/// and what was told as lost.
fn scenario(plan: HashMap<usize, Fault>) -> (usize, Vec<String>) {
    Clock::run(|clock| async move {
        let store = Arc::new(Wired(Planned::new(&clock, plan)));
        let nodes: Vec<_> = (0..2)
            .map(|n| node(n, Arc::clone(&store) as Arc<dyn Store>, &NodeClock::new(&clock)))
            .collect();
        if !add(&nodes[0]).await {
            // Whether it was added is not known: there may be no session to check.
            return (store.0.count(), Vec::new());
        }
        let log = Log::default();
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
        tokio::join!(first, second);
        let count = store.0.count();
        store.0.heal();
        log.check(&clock, &nodes).await;
        (count, log.losses())
    })
}

#[test]
fn nothing_is_told_as_lost_where_nothing_fails() {
    let (count, losses) = scenario(HashMap::new());
    assert!(count > 50 && losses.is_empty(), "{count} operations, {losses:?}");
}

#[test]
fn a_fault_at_any_operation_harms_nothing() {
    let (count, _) = scenario(HashMap::new());
    for at in 0..count + 10 {
        for fault in Fault::ALL {
            in_words(&[(at, fault)], || scenario(HashMap::from([(at, fault)])));
        }
    }
}

#[test]
fn two_faults_in_a_row_at_any_operation_harm_nothing() {
    let (count, _) = scenario(HashMap::new());
    for at in 0..count + 10 {
        for first in Fault::ALL {
            for second in Fault::ALL {
                let plan = [(at, first), (at + 1, second)];
                in_words(&plan, || scenario(HashMap::from(plan)));
            }
        }
    }
}

/// Says which faults it was that a scenario did not withstand.
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
