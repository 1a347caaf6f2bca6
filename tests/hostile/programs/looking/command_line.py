# aim = "secret"
# tries = "Prints the arguments that the interpreter was started with."
# control = "the secret is not in the command line of the control"
import sys

print(sys.orig_argv, open("/proc/self/cmdline").read())
