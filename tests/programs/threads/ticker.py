import threading
import time

seen = []


def tick(stop):
    while not stop.wait(0.02):
        seen.append("tick")


stop = threading.Event()
threading.Thread(target=tick, args=(stop,), daemon=True).start()
time.sleep(0.07)
print(len(seen) in (2, 3))

# expect stdout: "True\n"
