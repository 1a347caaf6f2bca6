1 + 1
x = 1

# with echo: last
# expect stdout: ""
