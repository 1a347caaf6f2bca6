import gc

result = "still here"


def fail(phase, info):
    raise SystemExit(8)


gc.callbacks.append(fail)
gc.set_threshold(1)

# expect success: true
# expect result: "still here"
