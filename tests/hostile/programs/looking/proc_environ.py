# aim = "secret"
# tries = "Reads the environment that the process was started with from `/proc`."
# control = "the control's process gave up its user, which makes its /proc files root's"
print(open("/proc/self/environ").read())
