# aim = "alive"
# tries = "Destroys a frame while it runs."
# control = "a bug that was mended; the class stays worth trying"
import gc


def running():
    import sys

    frame = sys._getframe()
    try:
        frame.clear()
    except RuntimeError:
        pass
    yield frame
    frame.f_locals.clear()


for frame in running():
    frame.f_lineno if True else None
    gc.collect()
