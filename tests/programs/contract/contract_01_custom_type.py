class OutOfStock(Exception):
    pass


def order(n):
    assert n > 0, "nothing ordered"
    raise OutOfStock(f"{n} pieces\nof two kinds")


order(3)

# expect error: "OutOfStock: 3 pieces of two kinds"
# expect line: 7
# expect stderr has: ["OutOfStock: 3 pieces\nof two kinds"]
