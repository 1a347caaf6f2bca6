import sys

result = {"nested": [[[[[1]]]]]}
depth = 1
while True:
    try:
        sys.setrecursionlimit(depth)
        break
    except RecursionError:
        depth += 1

# expect success: true
# expect result: {"nested": [[[[[1]]]]]}
