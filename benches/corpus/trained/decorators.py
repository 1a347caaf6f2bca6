import functools
import inspect
from collections import defaultdict

calls = defaultdict(int)


def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        calls[function.__qualname__] += 1
        return function(*args, **kwargs)

    return wrapper


def retry(times, *errors):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            for attempt in range(1, times + 1):
                try:
                    return function(*args, attempt=attempt, **kwargs)
                except errors:
                    if attempt == times:
                        raise

        return wrapper

    return decorate


def typed(function):
    hints = inspect.get_annotations(function)
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        for name, value in {**dict(zip(names, args)), **kwargs}.items():
            if name in hints and not isinstance(value, hints[name]):
                raise TypeError(f"{function.__name__}: {name} must be {hints[name].__name__}")
        return function(*args, **kwargs)

    return wrapper


@functools.singledispatch
def describe(value):
    return f"something: {value!r}"


@describe.register
def _(value: int):
    return f"a number, {'even' if value % 2 == 0 else 'odd'}"


@describe.register(list)
@describe.register(tuple)
def _(value):
    return f"{len(value)} things: " + "; ".join(map(describe, value[:2]))


@counted
@retry(3, ConnectionError)
def unstable(number, attempt):
    if number % 5 > attempt:
        raise ConnectionError(number)
    return number, attempt


@counted
@typed
def scale(text: str, times: int = 2) -> str:
    return text * times


@functools.lru_cache(maxsize=500)
def ackermann_like(m, n):
    return n + 1 if m == 0 else ackermann_like(m - 1, 1 if n == 0 else ackermann_like(m, n - 1) % 40)


ended = defaultdict(int)
for number in range(20000):
    try:
        ended[unstable(number)[1]] += 1
    except ConnectionError:
        ended["failed"] += 1
print(dict(ended))
for arguments in [("ab", 3), ("x",), ("y", "z"), (5,)] * 2000:
    try:
        last = scale(*arguments)
    except TypeError as error:
        last = str(error)
print(last, dict(calls))
print(describe([1, "two", 3.0]), "|", describe((4, [5])), "|", describe({}))
print(ackermann_like(3, 30), ackermann_like.cache_info().hits > 100)
compose = functools.partial(functools.reduce, lambda f, g: lambda x: g(f(x)))
print(sum(map(compose([lambda x: x + 1, lambda x: x * 2, str, len]), range(30000))))
