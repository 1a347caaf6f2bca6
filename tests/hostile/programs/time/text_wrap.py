# aim = "time"
# tries = "Wraps a text that is one long word with hyphens."
import textwrap

textwrap.wrap("a-" * 200_000, 3, break_on_hyphens=True)
textwrap.dedent("\n" + " " * 10_000_000 * 20)
while textwrap.wrap("a-" * 20_000, 3):
    pass
