print("é" * 1000)

# with output: 101
# expect truncated: ["stdout"]
# expect success: true
