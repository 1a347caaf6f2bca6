import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

results, lock = [], threading.Lock()
mine = threading.local()
mine.x = "main"


def work(n, scale=1):
    mine.x = n
    with lock:
        results.append((n * scale, threading.current_thread().name))


threads = [threading.Thread(target=work, args=(n,), kwargs={"scale": 2}) for n in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(results, mine.x, threading.current_thread().name, threading.active_count())
print([thread.is_alive() for thread in threads], all(t.ident for t in threads))


class Own(threading.Thread):
    def run(self):
        self.value = 42


own = Own(name="own")
own.start()
own.join()
print(own.value)
own = threading.Thread(target=lambda: results.append(threading.get_native_id()))
print(own.native_id)
own.start()
main = threading.get_native_id()
print(own.native_id == results[-1] != main == threading.main_thread().native_id)

# Producer and consumer, through a queue with a bound, in either order.
for first in ("producer", "consumer"):
    items, got = queue.Queue(maxsize=2), []

    def produce():
        for n in range(5):
            items.put(n)
        items.put(None)

    def consume():
        while (item := items.get()) is not None:
            got.append(item)
            items.task_done()

    both = [threading.Thread(target=produce), threading.Thread(target=consume)]
    for thread in both if first == "producer" else both[::-1]:
        thread.start()
    for thread in both:
        thread.join()
    print(first, got)

# Workers that never end, as in the manual of `queue`.
jobs = queue.Queue()


def forever():
    while True:
        print("job", jobs.get())
        jobs.task_done()


for _ in range(2):
    threading.Thread(target=forever, daemon=True).start()
for n in range(3):
    jobs.put(n)
jobs.join()

# Events, conditions, timers and barriers of one.
event = threading.Event()
waiter = threading.Thread(target=lambda: print("set", event.wait()))
waiter.start()
print("before")
event.set()
waiter.join()
order = []
timers = [threading.Timer(t, order.append, [t]) for t in (0.05, 0.01, 5)]
for timer in timers:
    timer.start()
timers[2].cancel()
for timer in timers:
    timer.join()
print(order)
print(threading.Barrier(1).wait(), threading.Semaphore(2).acquire(), event.wait(0.01))


def fill():
    time.sleep(0.01)
    event.clear()


with ThreadPoolExecutor(2) as pool:
    pipe = queue.Queue()
    taken = pool.submit(lambda: [pipe.get() for _ in range(2)])
    pool.submit(lambda: [pipe.put(n) for n in "ab"])
    print(taken.result())


def fails():
    raise KeyError("lost")


thread = threading.Thread(target=fails, name="failing")
thread.start()
thread.join()
print("after")

# expect stdout: "[(0, 'Thread-1 (work)'), (2, 'Thread-2 (work)'), (4, 'Thread-3 (work)')] main MainThread 1\n[False, False, False] True\n42\nNone\nTrue\nproducer [0, 1, 2, 3, 4]\nconsumer [0, 1, 2, 3, 4]\njob 0\njob 1\njob 2\nbefore\nset True\n[0.01, 0.05]\n0 True True\n['a', 'b']\nafter\n"
# expect stderr has: ["Exception in thread failing:\nTraceback (most recent call last):\n", "KeyError: 'lost'"]
# expect stderr lacks: ["belljar"]
