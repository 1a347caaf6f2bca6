import unicodedata

text = "Größe, naïveté, Ελληνικά, русский, 日本語, emoji 🎉 and é as e\u0301. " * 60
kinds = {}
for c in text:
    kinds[unicodedata.category(c)] = kinds.get(unicodedata.category(c), 0) + 1
plain = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
print(sorted(kinds.items())[:5], len(plain), len(text.encode()), len(text.encode("utf-16")))
print(text.casefold()[:6], text.upper()[:8], [hex(ord(c)) for c in "é🎉"], unicodedata.name("é"))
print(sum(c.isalpha() for c in text), text.translate({ord("e"): "3", ord(","): None})[:20], len(text.split()))
