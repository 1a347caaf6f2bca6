"a docstring is an expression, too"
1 + 1
None
x = 3
[x]
"text"
for n in range(2):
    n
if x:
    "not at top level"
print("printed")
repr("text")

# with echo: all
# expect stdout: "a docstring is an expression, too\n2\n[3]\ntext\nprinted\n'text'\n"
