# aim = "memory"
# tries = "Interns names, which the interpreter keeps."
import sys

held = []
while True:
    held.append(sys.intern("name" * 100 + str(len(held))))
