"""An exception with a message of 64 MiB."""

raise ValueError("x" * (64 << 20))
