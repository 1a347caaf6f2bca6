import io
import keyword
import tokenize
from collections import Counter

source = "\n".join(
    f"class C{i}:\n    value = {i}\n    def method(self, a, b={i}):  # note\n        return f'{{a}} {{b}}' + str(self.value ** 2)"
    for i in range(90)
)
tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
kinds = Counter(tokenize.tok_name[t.type] for t in tokens)
names = Counter(t.string for t in tokens if t.type == tokenize.NAME and not keyword.iskeyword(t.string))
code = compile(source, "text", "exec")
space = {}
exec(code, space)
print(len(tokens), kinds.most_common(3), names.most_common(3), space["C7"]().method(1))
