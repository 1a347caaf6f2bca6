# aim = "memory"
# tries = "Makes loggers, which live as long as the process."
import logging

number = 0
while True:
    logging.getLogger(f"a{number}").ballast = bytearray(b"x" * 100_000)
    number += 1
