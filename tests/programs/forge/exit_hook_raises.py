import atexit


@atexit.register
def fail():
    raise ValueError("in the hook")


result = "still here"

# expect success: true
# expect result: "still here"
# expect stderr has: ["ValueError: in the hook"]
# expect stderr lacks: ["belljar"]
