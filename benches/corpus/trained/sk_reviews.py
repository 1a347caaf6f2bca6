import random

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score
from sklearn.model_selection import train_test_split

random.seed(4)
GOOD = "great excellent loved wonderful perfect delightful recommend happy superb charming".split()
BAD = "terrible awful boring broken disappointing waste refund slow rude dreadful".split()
PLAIN = "the a movie food service hotel room staff price place was were it they very quite really and with".split()


def review(positive):
    own, other = (GOOD, BAD) if positive else (BAD, GOOD)
    words = random.choices(PLAIN, k=12) + random.choices(own, k=3) + random.choices(other, k=random.randrange(2))
    random.shuffle(words)
    return " ".join(words)


labels = [random.random() < 0.5 for _ in range(1500)]
texts = [review(label) for label in labels]
train_texts, test_texts, train, test = train_test_split(texts, labels, test_size=0.25, random_state=0, stratify=labels)

vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
features = vectorizer.fit_transform(train_texts)
model = LogisticRegression(C=2.0, max_iter=200).fit(features, train)
predicted = model.predict(vectorizer.transform(test_texts))

print("features:", features.shape, "stored:", features.nnz)
print(f"accuracy {accuracy_score(test, predicted):.3f}, f1 {f1_score(test, predicted):.3f}")
print(confusion_matrix(test, predicted))
names = vectorizer.get_feature_names_out()
order = model.coef_[0].argsort()
print("negative:", ", ".join(names[order[:4]]))
print("positive:", ", ".join(names[order[-4:]]))
for text in ["the food was great and the staff charming", "boring movie, very slow"]:
    probability = model.predict_proba(vectorizer.transform([text]))[0, 1]
    print(f"{text!r}: {probability:.2f}")
