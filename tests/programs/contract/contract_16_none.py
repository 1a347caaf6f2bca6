1 + 1
"text"

# expect stdout: ""
