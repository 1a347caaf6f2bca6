# Each kind defines `dive(n)`, which recurses n levels, every one of them through C code.

# kind: lru_cache
import functools
@functools.lru_cache(None)
def dive(n):
    return n and 1 + dive(n - 1)

# kind: map
def dive(n):
    return n and 1 + next(map(dive, (n - 1,)))

# kind: sorted
def dive(n):
    return n and 1 + (sorted([n - 1], key=dive) and n - 1)

# kind: re.sub
import re
def dive(n):
    return n and int(re.sub("x", lambda found: str(1 + dive(n - 1)), "x"))

# kind: __getattr__
class Chain:
    def __getattr__(self, name):
        n = int(name[1:])
        return n and 1 + getattr(self, f"n{n - 1}")
def dive(n):
    return getattr(Chain(), f"n{n}")

# kind: __eq__
class Node:
    def __init__(self, next):
        self.next = next
    def __eq__(self, other):
        return self.next == other.next
def dive(n):
    one = other = None
    for _ in range(n):
        one, other = Node(one), Node(other)
    assert one == other
    return n

# kind: pickle
import pickle
class Held:
    def __init__(self, next):
        self.next = next
    def __reduce__(self):
        return Held, (self.next,)
def dive(n):
    one = None
    for _ in range(n):
        one = Held(one)
    pickle.dumps(one)
    return n

# kind: eval
def dive(n):
    return n and 1 + eval("dive(n - 1)", globals(), {"n": n})

# kind: sum
def dive(n):
    return n and 1 + sum(dive(n - 1) for _ in (0,))

# kind: json
import json
def dive(n):
    nested = []
    for _ in range(n - 1):
        nested = [nested]
    assert json.loads(json.dumps(nested)) == nested
    return n

# kind: copy.deepcopy
import copy
def dive(n):
    nested = []
    for _ in range(n // 2 - 1):
        nested = [nested]
    copy.deepcopy(nested)
    return n

# kind: repr
def dive(n):
    nested = []
    for _ in range(n - 1):
        nested = [nested]
    return repr(nested).count("[")

# kind: __repr__
class Shown:
    def __init__(self, n):
        self.n = n
    def __repr__(self):
        return self.n and f"1{Shown(self.n - 1)!r}" or "0"
def dive(n):
    return repr(Shown(n)).count("1")

# kind: compile
def dive(n):
    compile("-" * n + "1", "x", "eval")
    return n

# kind: exec
def dive(n):
    space = {"dive": dive, "n": n}
    if n:
        exec("m = 1 + dive(n - 1)", space)
    return space.get("m", 0)

# kind: __instancecheck__
class Meta(type):
    def __instancecheck__(cls, n):
        return n == 0 or isinstance(n - 1, Checked)
class Checked(metaclass=Meta):
    pass
def dive(n):
    assert isinstance(n + 0.5 - 0.5, Checked)
    return n

# kind: __hash__
class Hashed:
    def __init__(self, n):
        self.n = n
    def __hash__(self):
        return self.n and hash(Hashed(self.n - 1))
def dive(n):
    hash(Hashed(n))
    return n

# kind: __add__
class Added:
    def __init__(self, n):
        self.n = n
    def __add__(self, one):
        return self.n and one + (Added(self.n - 1) + one)
def dive(n):
    return Added(n) + 1

# kind: property
class Held:
    def __init__(self, n):
        self.n = n
    @property
    def depth(self):
        return self.n and 1 + Held(self.n - 1).depth
def dive(n):
    return Held(n).depth

# kind: reduce
import functools
def dive(n):
    return n and 1 + functools.reduce(lambda _, m: dive(m), (n - 1,), 0)

# kind: partial
import functools
def dive(n):
    return n and 1 + functools.partial(dive, n - 1)()

# kind: iter
class Walk:
    def __init__(self, n):
        self.n = n
    def __iter__(self):
        return iter(list(Walk(self.n - 1)) + [1] if self.n else [])
def dive(n):
    return len(list(Walk(n)))

# kind: format
class Told:
    def __init__(self, n):
        self.n = n
    def __format__(self, how):
        return self.n and "{:s}1".format(Told(self.n - 1)) or ""
def dive(n):
    return len(format(Told(n)))

# kind: comparison
def dive(n):
    one, other = [], ()
    for _ in range(n - 1):
        one, other = [one], (other,)
    assert one == copy.copy(one) and other == (*other,)
    twin = []
    for _ in range(n - 1):
        twin = [twin]
    assert one == twin
    return n
import copy

# kind: freeing
class Link:
    pass
def dive(n):
    first = None
    for _ in range(n * 2):
        link = Link()
        link.next = first
        first = link
    return n

# kind: annotation
def dive(n):
    one, other = list[int], list[int]
    for _ in range(n - 1):
        one, other = list[one], list[other]
    assert one == other
    return n
