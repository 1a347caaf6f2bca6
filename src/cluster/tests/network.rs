//! Simulates networks of two to five nodes, whose connections to the store fail and whose clocks
//! stop, controlled by seeds.
//!
//! `turmoil` simulates hosts that communicate over sockets. Here nodes never communicate directly,
//! and a store is an object: only its operations can fail, so these are simulated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::clock::{Clock, NodeClock};
use super::faults::{Asked, Said, Wire, Wired, failed};
use super::world::{How, LEASE, ListNode, Log, add, node};
use crate::store::{Answer, MemoryStore, Store};

/// Number of simulated networks.
const SEEDS: u64 = 300;
/// Number of consecutive actions of a client.
const STEPS: usize = 8;

/// Random numbers derived from a seed.
#[derive(Clone, Debug)]
struct Random(Arc<AtomicU64>);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// Returns a number below `end`.
    fn below(&self, end: u64) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut x = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % end
    }

    fn time(&self, end: Duration) -> Duration {
        Duration::from_millis(self.below(end.as_millis() as u64))
    }
}

/// The connection of one node.
struct Cable {
    store: Arc<MemoryStore>,
    clock: NodeClock,
    random: Random,
    is_cut: AtomicBool,
}

impl std::fmt::Debug for Cable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cable")
    }
}

impl Cable {
    /// Waits for the store, up to the timeout of a store's client.
    async fn pass(&self) -> bool {
        let end = self.clock.clock.passed() + 5 * LEASE;
        while self.is_cut.load(Ordering::Relaxed) {
            if self.clock.clock.passed() > end || self.random.below(50) == 0 {
                return false;
            }
            self.clock.clock.sleep(Duration::from_millis(20)).await;
        }
        true
    }
}

impl Wire for Cable {
    fn ask(&self, asked: Asked) -> Answer<'_, Said> {
        Box::pin(async move {
            let on_its_way = self.random.time(Duration::from_millis(10));
            self.clock.clock.sleep(on_its_way).await;
            if !self.pass().await {
                return Err(failed());
            }
            let said = asked.of(&*self.store).await;
            let on_its_way = self.random.time(Duration::from_millis(10));
            self.clock.clock.sleep(on_its_way).await;
            let is_answered = self.pass().await;
            self.clock.running().await;
            if is_answered { said } else { Err(failed()) }
        })
    }
}

async fn client(log: &Log, node: &ListNode, random: &Random) {
    for _ in 0..STEPS {
        let time = random.time(LEASE * 3 / 2);
        match random.below(9) {
            0 => log.touch(node).await,
            1 => log.read(node).await,
            2 => drop(log.run(node, How::Dropped, time).await),
            7 => log.interrupt(node).await,
            8 => drop(node.remove_strays(Duration::ZERO).await),
            3 | 4 => drop(log.run(node, How::Behind, time).await),
            _ => drop(log.run(node, How::Durably, time).await),
        }
        node.host.clock.sleep(random.time(LEASE / 2)).await;
    }
}

/// Cuts connections and stops clocks until the clients are done.
async fn trouble(clock: &Arc<Clock>, cables: &[Arc<Wired<Cable>>], random: &Random) {
    loop {
        clock.sleep(random.time(2 * LEASE)).await;
        let cable = &cables[random.below(cables.len() as u64) as usize].0;
        match random.below(4) {
            0 => cable.is_cut.store(true, Ordering::Relaxed),
            1 => cable.clock.stop(),
            _ => {
                cable.is_cut.store(false, Ordering::Relaxed);
                cable.clock.go_on();
            }
        }
    }
}

fn simulate(seed: u64) -> usize {
    Clock::run(|clock| async move {
        let random = Random::new(seed);
        let store = Arc::new(MemoryStore::new());
        let count = 2 + random.below(4) as usize;
        let cables: Vec<_> = (0..count)
            .map(|_| {
                Arc::new(Wired(Cable {
                    store: Arc::clone(&store),
                    clock: NodeClock::new(&clock),
                    random: random.clone(),
                    is_cut: AtomicBool::new(false),
                }))
            })
            .collect();
        let nodes: Vec<_> = cables
            .iter()
            .enumerate()
            .map(|(n, cable)| node(n, Arc::clone(cable) as Arc<dyn Store>, &cable.0.clock))
            .collect();
        assert!(add(&nodes[0]).await);
        let log = Arc::new(Log::default());
        let left = Arc::new(Mutex::new(count));
        for node in &nodes {
            let (log, node, random) = (Arc::clone(&log), Arc::clone(node), random.clone());
            let left = Arc::clone(&left);
            tokio::spawn(async move {
                client(&log, &node, &random).await;
                *left.lock().unwrap() -= 1;
            });
        }
        let done = async {
            while *left.lock().unwrap() > 0 {
                clock.sleep(LEASE).await;
            }
        };
        tokio::select! {
            biased;
            () = done => {}
            () = trouble(&clock, &cables, &random) => {}
        }
        for cable in &cables {
            cable.0.is_cut.store(false, Ordering::Relaxed);
            cable.0.clock.go_on();
        }
        log.check(&clock, &nodes).await;
        log.losses().len()
    })
}

#[test]
fn partitions_and_stopped_clocks_harm_nothing() {
    struct Seed(u64);

    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("with the seed {}", self.0);
            }
        }
    }

    let mut losses = 0;
    for seed in 0..SEEDS {
        let _seed = Seed(seed);
        losses += simulate(seed);
    }
    // Otherwise the simulation would not have tested failures.
    assert!(losses > 50, "{losses} losses");
}
