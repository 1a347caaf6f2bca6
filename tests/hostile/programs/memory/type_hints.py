# aim = "memory"
# tries = "Nests unions of types, which keep all their parts."
import typing

held = []
while True:
    held.append(typing.Union[tuple(type(f"T{i}", (), {}) for i in range(300))])
