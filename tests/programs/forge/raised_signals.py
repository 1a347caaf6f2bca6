import signal

result = []
for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGALRM"):
    number = getattr(signal, name, None)
    if number is None:
        continue
    try:
        signal.signal(number, lambda *_: None)
        signal.raise_signal(number)
    except (ValueError, OSError, KeyboardInterrupt):
        continue
result = "still here"

# expect success: true
# expect result: "still here"
