# aim = "memory"
# tries = "Fills a buffer for text with letters of four bytes."
import io

buffer = io.StringIO()
while True:
    buffer.write("\N{PILE OF POO}" * 100_000)
