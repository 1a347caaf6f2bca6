value = 1

# expect result: null
# expect success: true
