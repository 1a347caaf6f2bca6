from functools import lru_cache, partial, reduce, wraps


def logged(calls):
    def decorate(function):
        @wraps(function)
        def inner(*args, **kwargs):
            calls.append(function.__name__)
            return function(*args, **kwargs)

        return inner

    return decorate


calls = []


@logged(calls)
def add(a, b=1, *, scale=1):
    return (a + b) * scale


def compose(*functions):
    return lambda x: reduce(lambda value, f: f(value), functions, x)


@lru_cache(maxsize=None)
def ways(n):
    return 1 if n < 2 else ways(n - 1) + ways(n - 2)


pipeline = compose(partial(add, b=3), lambda x: x * 2, add, partial(add, scale=2))
print(sum(pipeline(i) for i in range(6_000)), len(calls), ways(90), ways.cache_info().hits)


def counter():
    n = 0

    def step():
        nonlocal n
        n += 1
        return n

    return step


tick = counter()
print(sum(tick() for _ in range(20_000)))
