from collections import defaultdict
from weakref import WeakSet


class Bus:
    def __init__(self):
        self.handlers, self.seen = defaultdict(list), WeakSet()

    def on(self, name, priority=0):
        def add(handler):
            self.handlers[name].append((priority, handler))
            self.handlers[name].sort(key=lambda pair: -pair[0])
            return handler

        return add

    def emit(self, name, *args, **kwargs):
        return [handler(*args, **kwargs) for _, handler in self.handlers[name]]


bus, totals = Bus(), defaultdict(int)


@bus.on("sale", priority=2)
def count(item, **rest):
    totals["count"] += 1
    return item


@bus.on("sale")
def add(item, price=0, **rest):
    totals[item] += price
    return price


@bus.on("sale", priority=1)
def check(*args, price, vip=False):
    return price > 50 or vip


results = [bus.emit("sale", f"item{i % 7}", price=i % 90, vip=not i % 10) for i in range(9_000)]
print(dict(totals), sum(r[1] for r in results))
