import sys

print(repr(sys.stdin.read()), __name__)
try:
    input("name? ")
except EOFError as error:
    print(type(error).__name__)

# expect stdout: "'' __main__\nname? EOFError\n"
