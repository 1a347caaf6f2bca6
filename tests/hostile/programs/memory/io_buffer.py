# aim = "memory"
# tries = "Writes into a buffer far behind its end."
import io

buffer = io.BytesIO()
while True:
    buffer.write(b"x" * (1 << 20))
