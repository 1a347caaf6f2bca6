1 + 1
"text"

# with echo: last
# expect stdout: "'text'\n"
