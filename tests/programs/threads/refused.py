import threading

threading.Thread(target=print).start()

# with threads: refuse
# expect error: "RuntimeError: can't start new thread"
# expect hint has: ["Threads and worker processes cannot be started here"]
