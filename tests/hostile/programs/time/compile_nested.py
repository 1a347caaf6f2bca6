# aim = "time"
# tries = "Compiles source whose nesting makes the parser try again and again."
for _ in range(1000):
    try:
        compile("(" * 90 + "lambda: {" * 5 + "x" * 10_000_000, "<s>", "exec")
    except (SyntaxError, MemoryError, RecursionError):
        pass
