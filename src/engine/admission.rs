//! Admission of runs: how many run concurrently, how many wait, and how many start at once.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_memory::Process;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::api::interrupt::Interrupt;
use crate::api::tenant::{Meter, Tenant};
use crate::error::Error;
use crate::limits::{MAX_START, MAX_START_WAIT};

/// One in this many turns, and queue places, is reserved for tenants without any.
const KEPT_OF: usize = 4;

/// Limits how many runs are active, and how many wait.
///
/// Runs of one tenant start in order. Tenants take turns: of the waiting tenants, the tenant with
/// the fewest active runs is next. Some turns are reserved for tenants without active runs, so that
/// a tenant with many runs does not make others wait for their end.
pub(crate) struct Turns {
    shared: Arc<Shared>,
    /// Process that owns the turns.
    process: Process,
}

struct Shared {
    queue: usize,
    concurrency: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of active runs.
    running: usize,
    /// Number of waiting runs.
    waiting: usize,
    /// All tenants with active or waiting runs; the tenant served last is at the end.
    lines: VecDeque<Line>,
    next_ticket: u64,
}

/// The runs of one tenant, or of all callers without a tenant.
struct Line {
    tenant: Option<Tenant>,
    running: usize,
    waiting: VecDeque<Ticket>,
}

struct Ticket {
    number: u64,
    turn: oneshot::Sender<Permit>,
}

/// A turn, held until dropped.
pub(crate) struct Permit {
    /// `None` once it was returned.
    given: Option<(Arc<Shared>, Option<Tenant>)>,
}

impl Turns {
    /// Allows at most `concurrency` active runs and `queue` waiting ones.
    pub(crate) fn new(concurrency: usize, queue: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                queue,
                concurrency,
                state: Mutex::default(),
            }),
            process: Process::current(),
        }
    }

    /// Fails in a forked child: memories, threads and directories belong to the parent. Call this
    /// before waiting for any lock, which a thread of the parent may have held.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process.is_current() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// Waits for a turn, which lasts until the returned value is dropped.
    pub(crate) async fn take(&self) -> Result<Permit, Error> {
        let meter = Meter::current();
        let permit = self.turn_of(meter.as_ref().map(|meter| meter.tenant().clone())).await?;
        if let Some(meter) = meter {
            meter.got_turn();
        }
        Ok(permit)
    }

    async fn turn_of(&self, tenant: Option<Tenant>) -> Result<Permit, Error> {
        self.check_process()?;
        let waiting = {
            let mut state = self.shared.lock();
            let waits = state.find(tenant.as_ref()).is_some_and(|line| !line.waiting.is_empty());
            if !waits && state.may_begin(&self.shared, tenant.as_ref()) {
                state.line(tenant.as_ref()).running += 1;
                state.running += 1;
                return Ok(Permit::new(&self.shared, tenant));
            }
            state.wait(&self.shared, tenant)?
        };
        waiting.turn().await
    }

    /// Like [`take`](Self::take); `None` if `interrupt` is used before the turn.
    pub(crate) async fn take_unless(
        &self,
        interrupt: Option<&Interrupt>,
    ) -> Result<Option<Permit>, Error> {
        let Some(interrupt) = interrupt else {
            return Ok(Some(self.take().await?));
        };
        tokio::select! {
            biased;
            () = interrupt.interrupted() => Ok(None),
            turn = self.take() => Ok(Some(turn?)),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of turns reserved for tenants without active runs.
    fn kept(&self) -> usize {
        if self.concurrency > 1 {
            (self.concurrency / KEPT_OF).max(1)
        } else {
            0
        }
    }

    /// Gives free turns to the next tenants.
    fn serve(self: &Arc<Self>) {
        loop {
            let Some((turn, tenant)) = self.lock().next(self) else {
                return;
            };
            let Err(mut unwanted) = turn.send(Permit::new(self, tenant)) else {
                continue;
            };
            unwanted.give_back();
        }
    }
}

impl State {
    /// Whether another run of this tenant may start.
    fn may_begin(&self, shared: &Shared, tenant: Option<&Tenant>) -> bool {
        let free = shared.concurrency.saturating_sub(self.running);
        let keeps = tenant.is_some_and(|tenant| !tenant.is_alone());
        let has_run = self.find(tenant).is_some_and(|line| line.running > 0);
        if keeps && has_run {
            free > shared.kept()
        } else {
            free > 0
        }
    }

    fn find(&self, tenant: Option<&Tenant>) -> Option<&Line> {
        self.lines.iter().find(|line| line.tenant.as_ref() == tenant)
    }

    fn line(&mut self, tenant: Option<&Tenant>) -> &mut Line {
        let at = self.lines.iter().position(|line| line.tenant.as_ref() == tenant);
        let at = at.unwrap_or_else(|| {
            self.lines.push_back(Line {
                tenant: tenant.cloned(),
                running: 0,
                waiting: VecDeque::new(),
            });
            self.lines.len() - 1
        });
        &mut self.lines[at]
    }

    /// Removes tenants without runs.
    fn tidy(&mut self) {
        self.lines.retain(|line| line.running > 0 || !line.waiting.is_empty());
    }

    fn wait(&mut self, shared: &Arc<Shared>, tenant: Option<Tenant>) -> Result<Waiting, Error> {
        let waiting = self.waiting;
        let has_waiting = self.find(tenant.as_ref()).is_some_and(|line| !line.waiting.is_empty());
        let keeps = tenant.as_ref().is_some_and(|tenant| !tenant.is_alone());
        let kept = if keeps && has_waiting {
            shared.queue / KEPT_OF
        } else {
            0
        };
        tracing::debug!(before = waiting, "a run waits for others");
        if waiting >= shared.queue - kept {
            return Err(Error::Busy { waiting });
        }
        let (turn, given) = oneshot::channel();
        let number = self.next_ticket;
        self.next_ticket += 1;
        self.waiting += 1;
        self.line(tenant.as_ref()).waiting.push_back(Ticket { number, turn });
        Ok(Waiting {
            shared: Arc::clone(shared),
            tenant,
            number,
            given,
        })
    }

    /// Takes the next ticket, and counts its run as active.
    fn next(&mut self, shared: &Shared) -> Option<(oneshot::Sender<Permit>, Option<Tenant>)> {
        let may =
            |line: &Line| !line.waiting.is_empty() && self.may_begin(shared, line.tenant.as_ref());
        let (at, _) = self
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| may(line))
            .min_by_key(|(_, line)| line.running)?;
        let mut line = self.lines.remove(at)?;
        let ticket = line.waiting.pop_front()?;
        line.running += 1;
        let tenant = line.tenant.clone();
        self.lines.push_back(line);
        self.running += 1;
        self.waiting -= 1;
        Some((ticket.turn, tenant))
    }
}

impl Permit {
    fn new(shared: &Arc<Shared>, tenant: Option<Tenant>) -> Self {
        Self {
            given: Some((Arc::clone(shared), tenant)),
        }
    }

    fn give_back(&mut self) -> Option<Arc<Shared>> {
        let (shared, tenant) = self.given.take()?;
        {
            let mut state = shared.lock();
            state.running -= 1;
            state.line(tenant.as_ref()).running -= 1;
            state.tidy();
        }
        Some(shared)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(shared) = self.give_back() {
            shared.serve();
        }
    }
}

/// A waiting run. Dropping it gives up its place.
struct Waiting {
    shared: Arc<Shared>,
    tenant: Option<Tenant>,
    number: u64,
    given: oneshot::Receiver<Permit>,
}

impl Waiting {
    async fn turn(mut self) -> Result<Permit, Error> {
        let given = (&mut self.given).await;
        Ok(given.expect("a ticket stays in its line until it is served"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let line = state.line(self.tenant.as_ref());
        let before = line.waiting.len();
        line.waiting.retain(|ticket| ticket.number != self.number);
        let gone = before - line.waiting.len();
        state.waiting -= gone;
        state.tidy();
    }
}

/// Limits how many fresh runs start at once.
///
/// A run that has just started accesses its memory for the first time. If it yielded to another
/// starting run, each would need its own memory and fault it in concurrently: sixteen short runs
/// started at once take several times as long as one after another on two processors. So the next
/// run starts when a starting run has ended, waits for something, or has run for a while.
pub(crate) struct Starts(Semaphore);

/// A starting run.
pub(crate) struct Start<'a>(Option<SemaphorePermit<'a>>);

impl Starts {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Semaphore::new(processors))
    }

    /// Waits until a run may start.
    pub(crate) async fn begin(&self) -> Start<'_> {
        if let Ok(permit) = self.0.try_acquire() {
            return Start(Some(permit));
        }
        let permit = tokio::time::timeout(MAX_START_WAIT, self.0.acquire()).await;
        Start(permit.ok().and_then(Result::ok))
    }
}

impl Start<'_> {
    /// Awaits `run`; other runs may start as soon as it waits for something.
    pub(crate) async fn watch<T>(
        &mut self,
        is_waiting: impl Fn() -> bool,
        run: impl Future<Output = T>,
    ) -> T {
        let mut run = pin!(run);
        let mut ran = Duration::ZERO;
        std::future::poll_fn(|context| {
            let since = Instant::now();
            let polled = run.as_mut().poll(context);
            ran += since.elapsed();
            if polled.is_pending() && (is_waiting() || ran > MAX_START) {
                self.0 = None;
            }
            polled
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a turn for a tenant, if one is free now.
    async fn now(turns: &Turns, tenant: &Tenant) -> Option<Permit> {
        let meter = tenant.meter(None);
        let take = meter.scope(turns.take());
        tokio::time::timeout(Duration::ZERO, take).await.ok().map(Result::unwrap)
    }

    /// Waits for turns and records each in `order`; each ends at once.
    async fn queue(turns: &Arc<Turns>, tenant: &Tenant, name: char, order: &Order) {
        let before = turns.shared.lock().waiting;
        let (turns_of, tenant, order) = (Arc::clone(turns), tenant.clone(), Arc::clone(order));
        tokio::spawn(async move {
            let turn = tenant.meter(None).scope(turns_of.take()).await.unwrap();
            order.lock().unwrap().push(name);
            tokio::task::yield_now().await;
            drop(turn);
        });
        while turns.shared.lock().waiting == before {
            tokio::task::yield_now().await;
        }
    }

    type Order = Arc<Mutex<String>>;

    async fn settled(turns: &Turns) {
        while turns.shared.lock().running > 0 {
            tokio::task::yield_now().await;
        }
        let state = turns.shared.lock();
        assert_eq!((state.waiting, state.lines.len()), (0, 0));
    }

    #[tokio::test]
    async fn who_has_nothing_running_does_not_wait_for_who_fills_its_share() {
        let turns = Turns::new(8, 100);
        let (busy, other, third) = (Tenant::new(), Tenant::new(), Tenant::new());
        let mut held = Vec::new();
        while let Some(turn) = now(&turns, &busy).await {
            held.push(turn);
        }
        assert_eq!(held.len(), 6);
        let first = now(&turns, &other).await;
        assert!(first.is_some());
        assert!(now(&turns, &other).await.is_none());
        assert!(now(&turns, &third).await.is_some());
        drop((held, first));
        settled(&turns).await;
    }

    #[tokio::test]
    async fn who_is_alone_has_all_turns() {
        let turns = Turns::new(2, 10);
        let tenant = Tenant::new();
        tenant.set_alone(true);
        let held = [now(&turns, &tenant).await, now(&turns, &tenant).await];
        assert!(held.iter().all(Option::is_some));
        assert!(now(&turns, &tenant).await.is_none());
        drop(held);
        settled(&turns).await;
    }

    #[tokio::test]
    async fn those_who_wait_are_served_in_rotation() {
        let turns = Arc::new(Turns::new(1, 100));
        let (busy, other, third) = (Tenant::new(), Tenant::new(), Tenant::new());
        let order = Order::default();
        let held = now(&turns, &busy).await.unwrap();
        for _ in 0..6 {
            queue(&turns, &busy, 'b', &order).await;
        }
        for _ in 0..2 {
            queue(&turns, &other, 'o', &order).await;
        }
        queue(&turns, &third, 't', &order).await;
        drop(held);
        settled(&turns).await;
        assert_eq!(*order.lock().unwrap(), "botbobbbb");
    }

    #[tokio::test]
    async fn a_tenant_does_not_fill_the_queue_of_the_others() {
        let turns = Arc::new(Turns::new(1, 8));
        let (busy, other) = (Tenant::new(), Tenant::new());
        let order = Order::default();
        let held = now(&turns, &busy).await.unwrap();
        for _ in 0..6 {
            queue(&turns, &busy, 'b', &order).await;
        }
        let refused = busy.meter(None).scope(turns.take()).await;
        assert!(matches!(refused, Err(Error::Busy { waiting: 6 })));
        queue(&turns, &other, 'o', &order).await;
        drop(held);
        settled(&turns).await;
        assert_eq!(order.lock().unwrap().len(), 7);
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_nothing_behind() {
        let turns = Turns::new(1, 1);
        let tenant = Tenant::new();
        let held = now(&turns, &tenant).await.unwrap();
        for _ in 0..3 {
            assert!(now(&turns, &tenant).await.is_none());
        }
        // A run that is dropped after it was given a turn, and before it took it, returns the turn.
        let meter = tenant.meter(None);
        let mut waiting = Box::pin(meter.scope(turns.take()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(held);
        assert_eq!(turns.shared.lock().running, 1);
        drop(waiting);
        settled(&turns).await;
    }
}
