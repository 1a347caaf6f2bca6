result = "not this"
wanted = [1, 2]

# with result_var: wanted
# expect result: [1, 2]
