from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    start: int
    end: int

    def overlaps(self, other):
        return self.start < other.end and other.start < self.end

    def __or__(self, other):
        return Interval(min(self.start, other.start), max(self.end, other.end))


def merged(intervals):
    result = []
    for interval in sorted(intervals, key=lambda i: (i.start, i.end)):
        if result and interval.start <= result[-1].end:
            result[-1] = result[-1] | interval
        else:
            result.append(interval)
    return result


intervals = [Interval(i * 37 % 9_000, i * 37 % 9_000 + i % 9 + 1) for i in range(3_000)]
some = intervals[:300]
print(len(merged(intervals)), sum(a.overlaps(b) for a in some for b in some), len(set(intervals)))
