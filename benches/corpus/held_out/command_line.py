import argparse
import shlex

parser = argparse.ArgumentParser(prog="tool")
parser.add_argument("files", nargs="*")
parser.add_argument("-n", "--number", type=int, default=3)
parser.add_argument("--verbose", action="store_true")
parser.add_argument("--mode", choices=["fast", "slow"], default="fast")
total = 0
for i in range(400):
    arguments = parser.parse_args(shlex.split(f"a.txt 'b c.txt' -n {i} --mode {'slow' if i % 2 else 'fast'}"))
    total += arguments.number * len(arguments.files) + (arguments.mode == "slow")
print(total, len(parser.format_help()))
