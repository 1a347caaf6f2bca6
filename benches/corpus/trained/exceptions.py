class Retry(Exception):
    def __init__(self, attempt):
        super().__init__(f"attempt {attempt}")
        self.attempt = attempt


def risky(n):
    if n % 7 == 0:
        raise Retry(n)
    if n % 5 == 0:
        return {}["missing"]
    if n % 3 == 0:
        return int("x%d" % n)
    return n


seen = {}
for n in range(12_000):
    try:
        value = risky(n)
    except Retry as error:
        key = f"retry {error.attempt % 3}"
    except (KeyError, ValueError) as error:
        key = type(error).__name__
    else:
        key = "ok" if value else "zero"
    finally:
        n += 1
    seen[key] = seen.get(key, 0) + 1
print(sorted(seen.items()))
try:
    try:
        risky(5)
    except KeyError as error:
        raise RuntimeError("wrapped") from error
except RuntimeError as error:
    print(error, type(error.__cause__).__name__)
