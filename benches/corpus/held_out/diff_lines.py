import difflib

one = [f"line {i} of the text" for i in range(260)]
two = [line.replace("text", "book") if i % 17 == 0 else line for i, line in enumerate(one) if i % 23]
diff = list(difflib.unified_diff(one, two, lineterm=""))
ratio = difflib.SequenceMatcher(None, "private thread currentThread;" * 4, "private volatile Thread;" * 4).ratio()
print(len(diff), round(ratio, 5), difflib.get_close_matches("appel", ["ape", "apple", "peach", "puppy"]))
