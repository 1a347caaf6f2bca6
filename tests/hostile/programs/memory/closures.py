# aim = "memory"
# tries = "Nests functions that hold each other."
# timeout = 5
function = None
while True:
    function = (lambda inner, ballast: lambda: (inner, ballast))(function, b"x" * 1000)
