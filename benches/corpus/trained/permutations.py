from itertools import combinations, permutations


def next_permutation(values):
    i = len(values) - 2
    while i >= 0 and values[i] >= values[i + 1]:
        i -= 1
    if i < 0:
        return False
    j = len(values) - 1
    while values[j] <= values[i]:
        j -= 1
    values[i], values[j] = values[j], values[i]
    values[i + 1 :] = reversed(values[i + 1 :])
    return True


def subsets(values):
    return [[]] if not values else [s + t for s in subsets(values[1:]) for t in ([], [values[0]])]


values, count = list(range(7)), 1
while next_permutation(values):
    count += 1
print(count, sum(p[0] * p[-1] for p in permutations(range(7))), len(subsets(list("abcdefghijk"))))
print(sum(1 for c in combinations(range(18), 4) if sum(c) == 34))
