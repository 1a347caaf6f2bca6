# aim = "answer"
# tries = "Leaves a table with such text as its key, and prints it."
import sys

result = {"\udcff\ud800": 1}
sys.stdout.write("\udc80")
