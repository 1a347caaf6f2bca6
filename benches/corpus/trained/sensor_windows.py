import math
import statistics
from collections import deque, namedtuple
from itertools import islice, pairwise, tee

Reading = namedtuple("Reading", "second value")


def sensor(count):
    noise = 7
    for second in range(count):
        noise = (noise * 75 + 74) % 65537
        value = 20 + 5 * math.sin(second / 60) + (noise / 65537 - 0.5)
        if noise % 211 == 0:
            value += 15
        yield Reading(second, value)


def windows(items, size):
    items = iter(items)
    window = deque(islice(items, size), maxlen=size)
    yield tuple(window)
    for item in items:
        window.append(item)
        yield tuple(window)


def moving_average(values, size):
    total, recent = 0.0, deque()
    for value in values:
        recent.append(value)
        total += value
        if len(recent) > size:
            total -= recent.popleft()
        yield total / len(recent)


def outliers(readings, size=30, threshold=4.0):
    for window in windows(readings, size):
        *before, last = window
        values = [reading.value for reading in before]
        mean, deviation = statistics.fmean(values), statistics.pstdev(values)
        if deviation and abs(last.value - mean) / deviation > threshold:
            yield last


first, second, third = tee(sensor(900), 3)
found = list(outliers(first))
smooth = list(moving_average((reading.value for reading in second), 60))
changes = [b.value - a.value for a, b in pairwise(third)]
print("outliers:", [(reading.second, round(reading.value, 2)) for reading in found])
print("smooth range:", round(min(smooth), 3), "to", round(max(smooth), 3))
print("median change:", round(statistics.median(map(abs, changes)), 4))
print("quartiles:", [round(q, 3) for q in statistics.quantiles(smooth, n=4)])
turns = sum(1 for a, b in pairwise(changes) if a * b < 0)
print("turns:", turns)
