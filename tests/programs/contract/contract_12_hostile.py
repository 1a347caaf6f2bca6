"""Objects that lie about what they are do not get to run where it matters."""


class Number(int):
    def __repr__(self):
        raise SystemExit(9)

    __str__ = __index__ = __int__ = __pos__ = __repr__


class Text(str):
    def encode(self, *_):
        return b"forged"

    __str__ = __repr__ = encode


class Mapping(dict):
    def items(self):
        raise SystemExit(9)

    def __iter__(self):
        raise SystemExit(9)


class Listing(list):
    def __iter__(self):
        raise SystemExit(9)

    def __len__(self):
        return 10**9


class Liar:
    @property
    def __class__(self):
        return dict

    def __repr__(self):
        return "liar"


class Exits:
    def __repr__(self):
        raise SystemExit(0)


cycle = []
cycle.append(cycle)
result = [Number(7), Text("text"), Mapping(a=1), Listing([1, 2]), Liar(), Exits(), cycle]

# expect success: true
# expect result: [7, "text", {"a": 1}, [1, 2], "liar", "<unreadable Exits object>", ["<circular list>"]]
