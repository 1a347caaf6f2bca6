# aim = "alive"
# tries = "Parses source that nests deeper than the parser looks."
# control = "CPython counts the nesting here and refuses"
for source in ("(" * 100_000, "-" * 500_000 + "1", "a" + "[a" * 50_000, "a" + ".b" * 300_000, "f'" + "{" * 5000):
    try:
        compile(source, "<s>", "eval")
    except (SyntaxError, MemoryError, RecursionError, ValueError):
        pass
