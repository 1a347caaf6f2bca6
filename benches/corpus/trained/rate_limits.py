"""A token bucket and a sliding window, replayed over a made-up request log."""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field


@dataclass
class TokenBucket:
    capacity: float
    refill_per_second: float
    tokens: float = field(init=False)
    updated: float = 0.0

    def __post_init__(self):
        self.tokens = self.capacity

    def allow(self, now: float) -> bool:
        elapsed = now - self.updated
        self.tokens = min(self.capacity, self.tokens + elapsed * self.refill_per_second)
        self.updated = now
        if self.tokens >= 1:
            self.tokens -= 1
            return True
        return False


class SlidingWindow:
    def __init__(self, limit: int, seconds: float):
        self.limit = limit
        self.seconds = seconds
        self.times: deque[float] = deque()

    def allow(self, now: float) -> bool:
        while self.times and self.times[0] <= now - self.seconds:
            self.times.popleft()
        if len(self.times) < self.limit:
            self.times.append(now)
            return True
        return False


def requests(count):
    state, now = 17, 0.0
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        now += (state >> 16) % 100 / 1000
        yield now, f"user{(state >> 8) % 5}"


limiters = {
    "bucket": defaultdict(lambda: TokenBucket(capacity=10, refill_per_second=2)),
    "window": defaultdict(lambda: SlidingWindow(limit=8, seconds=4)),
}
results = {name: Counter() for name in limiters}
for now, user in requests(27_000):
    for name, by_user in limiters.items():
        verdict = "allowed" if by_user[user].allow(now) else "denied"
        results[name][user, verdict] += 1

for name, counts in results.items():
    print(name)
    for (user, verdict), count in sorted(counts.items()):
        print(f"  {user:<6} {verdict:<8} {count:>6,}")
