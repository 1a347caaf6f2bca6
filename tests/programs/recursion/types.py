"""A class with very many ancestors, one after the other."""

ancestor = object
for number in range(20_000):
    ancestor = type(f"C{number}", (ancestor,), {})
    if number % 1000 == 0:
        ancestor.__mro__  # noqa: B018
print(ancestor.__name__)
