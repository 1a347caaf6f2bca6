import threading

lock = threading.Lock()
lock.acquire()
print(lock.acquire(timeout=0.01), lock.acquire(blocking=False))
lock.acquire()

# expect stdout: "False False\n"
# expect error: "RuntimeError: Lock.acquire() would wait forever: no other thread is left that could do anything about it"
# expect line: 6
# expect stderr lacks: ["belljar"]
