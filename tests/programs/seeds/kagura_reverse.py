result = "hello"[::-1]

# with policy: strict
# expect result: "olleh"
