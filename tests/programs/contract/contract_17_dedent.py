    def double(n):
        return 2 * n

    result = double(21)

# expect result: 42
