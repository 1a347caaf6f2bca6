# aim = "memory"
# tries = "Has one letter become eighteen, by Unicode's own tables."
import unicodedata

print(len(unicodedata.normalize("NFKD", "\ufdfa" * 10_000_000)))
