x = 10
x * 2
None
"text"
print(x * 2)

# with echo: all
# expect stdout: "20\ntext\n20\n"
