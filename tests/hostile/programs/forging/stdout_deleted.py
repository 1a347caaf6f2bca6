# aim = "answer"
# tries = "Detaches and removes the streams, also those that were put aside."
import sys

import gc

sys.__stdout__.detach().close()
del sys.stdout, sys.stderr
sys.__stdout__ = sys.__stderr__ = None
gc.collect()
