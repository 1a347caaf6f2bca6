from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def opened(log, name):
    log.append(f"open {name}")
    try:
        yield name.upper()
    finally:
        log.append(f"close {name}")


class Timer:
    def __init__(self):
        self.entered = 0

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, kind, value, trace):
        return kind is KeyError


log, timer = [], Timer()
for i in range(2_500):
    with opened(log, f"file{i % 10}") as name, timer:
        if i % 3 == 0:
            raise KeyError(name)
    with suppress(ZeroDivisionError):
        1 // (i % 2)
    with ExitStack() as stack:
        for k in range(3):
            stack.enter_context(opened(log, str(k)))
print(len(log), timer.entered, log[-1])
