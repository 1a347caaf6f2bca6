result = eval("1+1")

# with policy: strict
# expect error: "SecurityError: Forbidden operation: eval"
# expect kind: "policy"
