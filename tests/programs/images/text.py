"""What people do with the packages of `text`. Prints the same on the host's Python."""

import faker
import nltk
import regex
from nltk.stem import PorterStemmer, SnowballStemmer
from nltk.tokenize import TreebankWordTokenizer, TweetTokenizer
from nltk.translate.bleu_score import sentence_bleu
from textblob import TextBlob

TEXT = "The cats aren't running; they've been sitting happily on two mats."
words = TreebankWordTokenizer().tokenize(TEXT)
print(words)
print([PorterStemmer().stem(word) for word in words])
print([SnowballStemmer("german").stem(word) for word in ("Häuser", "liefen")])
print(nltk.FreqDist(TEXT.lower()).most_common(3), list(nltk.ngrams(words[:4], 2)))
print(TweetTokenizer().tokenize("so #cool @ada :-)"), nltk.edit_distance("kitten", "sitting"))
print(round(sentence_bleu([words], words[:-1]), 4))
grammar = nltk.CFG.fromstring("S -> N V\nN -> 'cats'\nV -> 'sit'")
print(next(nltk.ChartParser(grammar).parse(["cats", "sit"])))
print(TextBlob("This is very good, but not the best.").sentiment)
print(regex.findall(r"\p{Lu}\w*", TEXT), regex.sub(r"(?<=a)t(?=s)", "T", TEXT))
fake = faker.Faker(["en_US", "de_DE"])
fake.seed_instance(7)
print(fake.name(), fake.address(), fake.email(), fake.date_of_birth().year > 1900, sep="|")
print([fake.pyint() for _ in range(3)], fake.sentence(), fake.company())
try:
    nltk.word_tokenize(TEXT)
except LookupError as error:
    print("punkt" in str(error))
