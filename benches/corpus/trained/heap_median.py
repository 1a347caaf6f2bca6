import bisect
import heapq
import statistics

low, high, values, medians = [], [], [], []
state = 42
for _ in range(4_000):
    state = (state * 6_364_136_223_846_793_005 + 1) % (1 << 64)
    value = state >> 44
    values.append(value)
    if not low or value <= -low[0]:
        heapq.heappush(low, -value)
    else:
        heapq.heappush(high, value)
    if len(low) > len(high) + 1:
        heapq.heappush(high, -heapq.heappop(low))
    elif len(high) > len(low):
        heapq.heappush(low, -heapq.heappop(high))
    medians.append(-low[0] if len(low) > len(high) else (high[0] - low[0]) / 2)
ordered = []
for value in values:
    bisect.insort(ordered, value)
print(medians[-1] == statistics.median(values), sum(medians), heapq.nsmallest(3, values), ordered[0])
print(round(statistics.stdev(values[:500]), 3), statistics.mode([v % 10 for v in values]))
