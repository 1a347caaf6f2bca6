# aim = "memory"
# tries = "Copies contexts that hold each other."
import contextvars

held = []
while True:
    variable = contextvars.ContextVar("x")
    variable.set(bytearray(b"x" * 20_000))
    held.append(contextvars.copy_context())
