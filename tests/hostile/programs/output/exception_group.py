# aim = "output"
# tries = "Raises groups of groups of exceptions."
def group(depth):
    return ValueError("x" * 1000) if depth == 0 else ExceptionGroup("g", [group(depth - 1) for _ in range(14)])


raise group(4) from ValueError("y" * 20_000_000)
