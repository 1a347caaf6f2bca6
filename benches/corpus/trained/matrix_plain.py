def multiply(a, b):
    columns = list(zip(*b))
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def determinant(m):
    m, result = [row[:] for row in m], 1.0
    for i in range(len(m)):
        pivot = max(range(i, len(m)), key=lambda r: abs(m[r][i]))
        if abs(m[pivot][i]) < 1e-12:
            return 0.0
        if pivot != i:
            m[i], m[pivot], result = m[pivot], m[i], -result
        result *= m[i][i]
        for r in range(i + 1, len(m)):
            factor = m[r][i] / m[i][i]
            for c in range(i, len(m)):
                m[r][c] -= factor * m[i][c]
    return result


a = [[(i * 3 + j * 7) % 11 - 5.0 for j in range(28)] for i in range(28)]
b = [[1.0 / (i + j + 1) for j in range(28)] for i in range(28)]
product = multiply(a, multiply(b, a))
print(round(sum(map(sum, product)), 6), round(determinant(a), 3))
