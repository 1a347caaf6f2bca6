import collections
import re

text = "The quick brown fox jumps over the lazy dog."
words = re.findall(r"\w+", text.lower())
lengths = [len(word) for word in words]
result = {
    "word_count": len(words),
    "unique_words": len(set(words)),
    "most_common_word": collections.Counter(words).most_common(1)[0][0],
    "average_word_length": round(sum(lengths) / len(lengths), 2),
}

# with policy: strict
# expect result: {"word_count": 9, "unique_words": 8, "most_common_word": "the", "average_word_length": 3.89}
