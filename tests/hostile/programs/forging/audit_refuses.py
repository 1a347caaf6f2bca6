# aim = "answer"
# tries = "Refuses by an audit hook all that the runner does next."
import sys


def hook(event, arguments):
    raise RuntimeError("no")


sys.addaudithook(hook)
