import string

TEXT = "The quick brown fox jumps over the lazy dog. " * 40


def shift(text, key):
    result = []
    for c in text:
        if c.islower():
            result.append(chr((ord(c) - 97 + key) % 26 + 97))
        elif c.isupper():
            result.append(chr((ord(c) - 65 + key) % 26 + 65))
        else:
            result.append(c)
    return "".join(result)


for key in range(1, 20):
    table = str.maketrans(
        string.ascii_lowercase, string.ascii_lowercase[key:] + string.ascii_lowercase[:key]
    )
    assert shift(shift(TEXT, key), 26 - key) == TEXT
    assert len(TEXT.translate(table)) == len(TEXT)
print(shift(TEXT, 3)[:45])
