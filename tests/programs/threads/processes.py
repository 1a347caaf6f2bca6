import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Manager, Pipe, Pool, Process, Queue, Value
from multiprocessing.pool import ThreadPool

LIMIT = 10


def square(x):
    if x > LIMIT:
        raise ValueError(x)
    return x * x


def add(a, b):
    return a + b


def change(values):
    values.append("changed")
    return len(values)


def work(queue, number, total, shared):
    with total.get_lock():
        total.value += number
    shared[number] = number * 2
    queue.put((number, square(number)))


def speak(connection):
    connection.send({"got": connection.recv()})
    connection.close()


def fail():
    raise SystemExit(3)


class Worker(Process):
    def __init__(self, queue):
        super().__init__(name="own")
        self.queue = queue

    def run(self):
        self.queue.put(mp.current_process().name)


if __name__ == "__main__":
    with Pool(4) as pool:
        print(pool.map(square, range(4)), pool.starmap(add, [(1, 2), (3, 4)]))
        print(list(pool.imap(square, range(3))), sorted(pool.imap_unordered(square, range(3))))
        result = pool.apply_async(square, (7,), callback=lambda value: print("back", value))
        print(result.get(timeout=1), pool.apply(add, (1,), {"b": 1}))
        failed = pool.map_async(square, [1, 11])
        try:
            failed.get()
        except ValueError as error:
            print("failed", error, failed.successful())
        mine = [1]
        print(pool.apply(change, (mine,)), mine)
        try:
            pool.map(lambda x: x, [1])
        except Exception as error:
            print(type(error).__name__)
    with ThreadPool() as pool:
        print(pool.map(lambda x: x + 1, [1, 2]))
    with ProcessPoolExecutor() as pool:
        print(list(pool.map(add, [1, 2], [3, 4])))

    queue, total = Queue(), Value("i", 0)
    shared = Manager().dict()
    processes = [Process(target=work, args=(queue, n, total, shared)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print([queue.get() for _ in processes], total.value, dict(shared), queue.empty())
    print([process.exitcode for process in processes], processes[0].is_alive())
    worker = Worker(queue)
    worker.start()
    worker.join()
    print(queue.get(), mp.current_process().name)
    here, there = Pipe()
    child = Process(target=speak, args=(there,))
    here.send("hello")
    child.start()
    print(here.recv())
    child.join()
    child = Process(target=fail)
    child.start()
    child.join()
    print(child.exitcode)
    numbers = mp.Array("d", [1.5, 2.5])
    numbers[0] += 1
    print(list(numbers), numbers[:], len(numbers))

# expect stdout: "[0, 1, 4, 9] [3, 7]\n[0, 1, 4] [0, 1, 4]\nback 49\n49 2\nfailed 11 False\n2 [1]\nPicklingError\n[2, 3]\n[4, 6]\n[(0, 0), (1, 1), (2, 4)] 3 {0: 0, 1: 2, 2: 4} True\n[0, 0, 0] False\nown MainProcess\n{'got': 'hello'}\n3\n[2.5, 2.5] [2.5, 2.5] 2\n"
# expect stderr: ""
