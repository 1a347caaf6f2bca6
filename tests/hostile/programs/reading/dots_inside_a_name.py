# aim = "secret"
# tries = "Goes into a directory of its own first, so that a check of the prefix passes."
import os

os.makedirs("mine/deeper")
print(open("mine/deeper/../../../secret.txt").read())
