import queue

queue.Queue().get()

# expect error: "RuntimeError: Queue.get() would wait forever: no other thread is left that could do anything about it"
# expect line: 3
