"""Exception groups in exception groups."""

error = ValueError("innermost")
for _ in range(100_000):
    error = ExceptionGroup("group", [error])
raise error
