class Trie:
    def __init__(self):
        self.children, self.is_word = {}, False

    def insert(self, word):
        node = self
        for letter in word:
            node = node.children.setdefault(letter, Trie())
        node.is_word = True

    def words(self, prefix=""):
        if self.is_word:
            yield prefix
        for letter, child in sorted(self.children.items()):
            yield from child.words(prefix + letter)

    def starting_with(self, prefix):
        node = self
        for letter in prefix:
            if letter not in node.children:
                return []
            node = node.children[letter]
        return list(node.words(prefix))


trie, state = Trie(), 1
for _ in range(1_500):
    state = (state * 48_271) % 2_147_483_647
    trie.insert("".join("abcde"[state >> (k * 3) & 3] for k in range(2 + state % 6)))
print(sum(1 for _ in trie.words()), trie.starting_with("abc")[:4], len(trie.starting_with("d")))
