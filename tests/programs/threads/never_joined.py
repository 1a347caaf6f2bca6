import threading
import queue

jobs, done = queue.Queue(), []


def work():
    while True:
        done.append(jobs.get())
        jobs.task_done()


threading.Thread(target=work, daemon=True).start()
jobs.put(1)
jobs.join()
jobs.put(2)

# expect error: "RuntimeError: the thread 'Thread-1 (work)' waits for what comes later, in Queue.get(): no other thread is left that could do anything about it"
