

		x = 1
		if x:
			result = "tabs"

# expect result: "tabs"
