state, values = 1, []
for _ in range(120_000):
    state = (state * 1103515245 + 12345) % 2147483648
    values.append(state)
values.sort()
pairs = sorted(((value % 1000, value) for value in values), key=lambda pair: (pair[0], -pair[1]))
print(values[0], values[-1], pairs[0], pairs[-1])
