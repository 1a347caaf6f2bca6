text = """
    kept as it is
"""
result = text

# expect result: "\n    kept as it is\n"
