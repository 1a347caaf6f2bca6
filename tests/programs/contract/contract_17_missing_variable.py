x = 1

# with result_var: y
# expect success: true
# expect result: null
