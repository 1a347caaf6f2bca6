def merge_sort(values):
    if len(values) <= 1:
        return values
    middle = len(values) // 2
    left, right = merge_sort(values[:middle]), merge_sort(values[middle:])
    result, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + left[i:] + right[j:]


def heap_sort(values):
    def sift(at, end):
        while (child := 2 * at + 1) < end:
            if child + 1 < end and values[child] < values[child + 1]:
                child += 1
            if values[at] >= values[child]:
                return
            values[at], values[child] = values[child], values[at]
            at = child

    for at in range(len(values) // 2 - 1, -1, -1):
        sift(at, len(values))
    for end in range(len(values) - 1, 0, -1):
        values[0], values[end] = values[end], values[0]
        sift(0, end)
    return values


numbers = [i * 48_271 % 65_537 for i in range(6_000)]
words = [f"w{n % 977}" for n in numbers[:2_000]]
print(merge_sort(numbers) == sorted(numbers), heap_sort(numbers[:3_000])[:3], merge_sort(words)[:3])
