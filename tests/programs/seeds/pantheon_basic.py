x = 1 + 2
print(x)

# with result_var: x
# expect result: 3
# expect stdout: "3\n"
