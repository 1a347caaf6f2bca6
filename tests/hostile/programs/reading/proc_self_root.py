# aim = "secret"
# tries = "Goes through `/proc/self/root`, which is a way to the root that is no link in the tree."
print(open("/proc/self/root@SECRET_FILE@").read())
