import sys


class Broken:
    def __getattr__(self, name):
        raise SystemExit(5)


print("before")
sys.stdout = Broken()
sys.stderr = None
sys.stdin = 3
sys.__stdout__ = sys.__stderr__ = Broken()
result = "still here"

# expect success: true
# expect result: "still here"
# expect stdout: "before\n"
