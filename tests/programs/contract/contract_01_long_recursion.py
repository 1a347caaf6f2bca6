def down(n):
    return down(n + 1)


down(0)

# expect error: "RecursionError: maximum recursion depth exceeded"
# expect kind: "exception"
# expect line: 2
# expect stderr has: ["[Previous line repeated "]
# expect hint has: ["recursion"]
