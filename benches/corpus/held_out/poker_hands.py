from collections import Counter
from itertools import combinations

RANKS = "23456789TJQKA"


def value(hand):
    ranks = sorted((RANKS.index(c[0]) for c in hand), reverse=True)
    groups = sorted(Counter(ranks).items(), key=lambda g: (-g[1], -g[0]))
    shape = tuple(n for _, n in groups)
    flush = len({c[1] for c in hand}) == 1
    straight = len(groups) == 5 and ranks[0] - ranks[4] == 4
    if straight and flush:
        kind = 8
    elif shape == (4, 1):
        kind = 7
    elif shape == (3, 2):
        kind = 6
    elif flush:
        kind = 5
    elif straight:
        kind = 4
    else:
        kind = {(3, 1, 1): 3, (2, 2, 1): 2, (2, 1, 1, 1): 1}.get(shape, 0)
    return kind, [r for r, _ in groups]


deck = [r + s for r in RANKS[-6:] for s in "SHD"]
hands = list(combinations(deck, 5))[:4_000]
kinds = Counter(value(hand)[0] for hand in hands)
print(sorted(kinds.items()), max(hands, key=value))
