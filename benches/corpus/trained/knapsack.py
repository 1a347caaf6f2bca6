items = [(w % 23 + 1, w * 7 % 41 + 3) for w in range(60)]


def best(capacity):
    table = [0] * (capacity + 1)
    for weight, value in items:
        for room in range(capacity, weight - 1, -1):
            table[room] = max(table[room], table[room - weight] + value)
    return table[capacity]


def coins(total, kinds=(1, 2, 5, 10, 20, 50)):
    ways = [1] + [0] * total
    for coin in kinds:
        for amount in range(coin, total + 1):
            ways[amount] += ways[amount - coin]
    return ways[total]


print(best(700), coins(5_000))
