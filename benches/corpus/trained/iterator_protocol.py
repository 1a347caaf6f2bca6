class Range:
    def __init__(self, stop):
        self.stop = stop

    def __iter__(self):
        return RangeIterator(self.stop)

    def __len__(self):
        return self.stop

    def __getitem__(self, index):
        if not 0 <= index < self.stop:
            raise IndexError(index)
        return index * 2

    def __contains__(self, value):
        return value % 2 == 0 and 0 <= value // 2 < self.stop


class RangeIterator:
    def __init__(self, stop):
        self.at, self.stop = 0, stop

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.stop:
            raise StopIteration
        self.at += 1
        return self.at - 1


values = Range(8_000)
print(sum(values), len(values), sum(values[i] for i in range(3_000)), 10 in values, 11 in values)
print(list(reversed(values))[:3], sum(1 for _ in zip(values, iter(range(5_000).__iter__()))))
