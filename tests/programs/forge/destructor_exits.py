import sys


class Leaving:
    def __del__(self):
        print("destroyed")
        sys.exit(4)


kept = Leaving()
kept.itself = kept
result = "still here"

# expect success: true
# expect result: "still here"
