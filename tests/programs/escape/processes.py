"""Starts processes and threads, signals others, and calls into the system's libraries."""

import concurrent.futures
import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading

from attempts import attempt


def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitpid(child, 0)


def execute():
    """In a child where there are any, since it does not come back."""
    child = os.fork() if hasattr(os, "fork") else 0
    if child == 0:
        os.execv("/bin/true", ["true"])
    return os.waitpid(child, 0)


def spawn():
    return os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def process():
    worker = multiprocessing.get_context("fork").Process(target=print)
    worker.start()
    worker.join()
    return worker.exitcode == 0


def pool():
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(os.getpid).result()


def thread():
    worker = threading.Thread(target=int)
    worker.start()
    worker.join()
    return True


def shell():
    return os.popen("echo reached").read()


def signalled():
    os.kill(os.getppid(), 0)
    return True


attempt("subprocess", lambda: subprocess.run(["true"], check=True))
attempt("subprocess by shell", lambda: subprocess.check_output("echo reached", shell=True))
attempt("system", lambda: os.system("true") == 0)
attempt("popen", shell)
attempt("fork", fork)
attempt("exec", execute)
attempt("spawn", spawn)
attempt("process", process)
attempt("process pool", pool)
attempt("thread", thread)
attempt("signal", signalled)
attempt("C library", lambda: ctypes.CDLL(None).getpid())
attempt("C library by name", lambda: ctypes.CDLL("libc.so.6").getppid())
attempt("own program", lambda: subprocess.run([sys.executable, "-c", ""], check=True))
