def flatten(value):
    for item in value:
        if isinstance(item, (list, tuple)):
            yield from flatten(item)
        else:
            yield item


def deep(levels, width):
    return [deep(levels - 1, width) if levels else i for i in range(width)]


def merge(a, b):
    result = dict(a)
    for key, value in b.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


nested = deep(6, 4)
one = {str(i): {str(j): {"v": i * j, "w": [i]} for j in range(30)} for i in range(40)}
two = {str(i): {str(j): {"v": -i} for j in range(20, 50)} for i in range(20, 60)}
print(sum(flatten(nested)), len(list(flatten(nested))), sum(len(v) for v in merge(one, two).values()))
