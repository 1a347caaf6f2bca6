from collections import namedtuple
from functools import cmp_to_key
from operator import attrgetter, itemgetter

Person = namedtuple("Person", "name age city")
people = [Person(f"p{i * 7919 % 1000:03}", i * 31 % 80, "ABCD"[i % 4]) for i in range(3_000)]
people.sort(key=attrgetter("name"))
people.sort(key=lambda p: (-p.age, p.city))
rows = sorted(({"k": p.age, "v": p.name} for p in people), key=itemgetter("k", "v"), reverse=True)
odd = sorted(people[:600], key=cmp_to_key(lambda a, b: (a.age > b.age) - (a.age < b.age)))


def quick(values):
    if len(values) < 2:
        return values
    pivot = values[len(values) // 2]
    less, same, more = [], [], []
    for v in values:
        (less if v < pivot else more if v > pivot else same).append(v)
    return quick(less) + same + quick(more)


def bubble(values):
    for end in range(len(values) - 1, 0, -1):
        for i in range(end):
            if values[i] > values[i + 1]:
                values[i], values[i + 1] = values[i + 1], values[i]
    return values


numbers = [i * 7919 % 10_007 for i in range(2_500)]
print(people[0], rows[0], odd[0].age, quick(numbers) == sorted(numbers), bubble(numbers[:160])[:3])
