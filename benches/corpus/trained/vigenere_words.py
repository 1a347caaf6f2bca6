def cipher(text, key, sign):
    result, at = [], 0
    for c in text:
        if c.isalpha():
            base = ord("A" if c.isupper() else "a")
            move = ord(key[at % len(key)].lower()) - ord("a")
            result.append(chr((ord(c) - base + sign * move) % 26 + base))
            at += 1
        else:
            result.append(c)
    return "".join(result)


def run_length(text):
    out, i = [], 0
    while i < len(text):
        j = i
        while j < len(text) and text[j] == text[i]:
            j += 1
        out.append((text[i], j - i))
        i = j
    return out


text = "Attack at dawn, and do not tell anyone about the plan. " * 90
secret = cipher(text, "lemon", 1)
runs = run_length("aaabbbccd" * 900)
is_palindrome = sum(str(n * n) == str(n * n)[::-1] for n in range(8_000))
print(secret[:24], cipher(secret, "lemon", -1) == text, len(runs), is_palindrome)
