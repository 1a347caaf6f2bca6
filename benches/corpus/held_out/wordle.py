from collections import Counter

LETTERS = "aeioulnstr"
words = [a + b + c + d for a in LETTERS for b in LETTERS[:5] for c in LETTERS for d in LETTERS[:5]][:900]


def feedback(guess, secret):
    result, left = ["-"] * len(guess), Counter()
    for i, (g, s) in enumerate(zip(guess, secret)):
        if g == s:
            result[i] = "g"
        else:
            left[s] += 1
    for i, g in enumerate(guess):
        if result[i] == "-" and left[g]:
            result[i] = "y"
            left[g] -= 1
    return "".join(result)


def play(secret):
    candidates, turns = words, 0
    while True:
        turns += 1
        guess = candidates[len(candidates) // 2]
        answer = feedback(guess, secret)
        if answer == "gggg":
            return turns
        candidates = [w for w in candidates if w != guess and feedback(guess, w) == answer]


print(Counter(play(secret) for secret in words[::40]))
