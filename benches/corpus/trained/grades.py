import bisect
import random
from collections import defaultdict
from operator import attrgetter, itemgetter

random.seed(2024)
BOUNDS = [50, 60, 70, 80, 90]
LETTERS = "FEDCBA"
SUBJECTS = ("math", "physics", "history", "art")


class Student:
    __slots__ = ("name", "year", "scores")

    def __init__(self, name, year):
        self.name = name
        self.year = year
        self.scores = {subject: min(100, max(0, round(random.gauss(72, 14)))) for subject in SUBJECTS}

    @property
    def average(self):
        return sum(self.scores.values()) / len(self.scores)

    @property
    def letter(self):
        return LETTERS[bisect.bisect(BOUNDS, self.average)]

    def __repr__(self):
        return f"<{self.name}: {self.average:.2f} {self.letter}>"


students = [Student(f"Student {i:04d}", 2020 + i % 4) for i in range(10_000)]
by_letter = defaultdict(list)
for student in students:
    by_letter[student.letter].append(student)
for letter in sorted(by_letter):
    group = by_letter[letter]
    print(f"{letter}: {len(group):5d} {'#' * (len(group) // 160)}")

ranked = sorted(students, key=attrgetter("average", "name"), reverse=True)
print("top:", ranked[:3])
print("bottom:", ranked[-2:])

averages = sorted(student.average for student in students)
for mark in (55, 70, 85.5):
    below = bisect.bisect_left(averages, mark)
    print(f"{mark} is above {100 * below / len(averages):.1f} % of the students")

best = {}
for subject in SUBJECTS:
    rows = sorted(((student.scores[subject], student.name) for student in students), key=itemgetter(0), reverse=True)
    best[subject] = [name for _, name in rows[:10]]
print({subject: names[0] for subject, names in best.items()})
years = defaultdict(lambda: [0, 0.0])
for student in students:
    years[student.year][0] += 1
    years[student.year][1] += student.average
print({year: round(total / count, 2) for year, (count, total) in sorted(years.items())})
