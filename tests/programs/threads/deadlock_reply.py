import queue
import threading

questions, answers = queue.Queue(), queue.Queue()


def answer():
    for _ in range(2):
        answers.put(questions.get() + 1)


thread = threading.Thread(target=answer, name="answerer")
thread.start()
for n in range(2):
    questions.put(n)
    print(answers.get())
thread.join()

# expect stdout: "1\n"
# expect error: "RuntimeError: Queue.get() would wait forever: no other thread is left that could do anything about it"
