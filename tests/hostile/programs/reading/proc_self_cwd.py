# aim = "secret"
# tries = "Goes through `/proc/self/cwd`, and up."
print(open("/proc/self/cwd/../secret.txt").read())
