words = []
for i in range(30_000):
    word = f"item-{i}"
    words.append(word.upper().replace("ITEM", "x").split("-")[1].zfill(8))
text = " ".join(words)
print(len(text), text.count("7"), text.find("00029999"), "".join(reversed(text))[:8])
