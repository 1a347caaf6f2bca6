lines = [f"  key_{i} = Value {i % 17} # comment\t" for i in range(2_500)]
pairs = {}
for line in lines:
    body, _, _ = line.partition("#")
    key, value = (part.strip() for part in body.split("=", 1))
    pairs[key.removeprefix("key_").zfill(5)] = value.lower().replace("value", "v").title()
text = ", ".join(f"{k}:{v}" for k, v in pairs.items())
print(len(text), text.count("V 1"), text.find("02000"), text.rfind("V 3"), text.swapcase()[:12])
words = text.split(", ")
print(sum(w.endswith("7") for w in words), sum(w[0].isdigit() for w in words), words[5].center(20, "*"))
print("".join(reversed("palindrome")), sum(w == w[::-1] for w in map(str, range(20_000))), "a-b_c".split("-"))
print("naïve café".encode().decode("utf-8").upper(), "tab\tsep".expandtabs(4), ascii("é"), repr("it's"))
