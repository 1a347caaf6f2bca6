import sys


def main():
    try:
        sys.exit("bye")
    finally:
        print("done")


main()

# expect kind: "exit"
# expect exit_status: 1
# expect error: "SystemExit: bye"
# expect stdout: "done\n"
# expect stderr: "bye\n"
