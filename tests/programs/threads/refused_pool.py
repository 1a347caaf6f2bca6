from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor() as pool:
    pool.submit(print)

# with threads: refuse
# expect error: "RuntimeError: can't start new thread"
