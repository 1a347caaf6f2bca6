import random
import textwrap
from dataclasses import dataclass, field
from functools import total_ordering

random.seed(77)


@total_ordering
@dataclass(eq=False)
class Team:
    name: str
    strength: float
    won: int = 0
    drawn: int = 0
    lost: int = 0
    scored: int = 0
    conceded: int = 0
    form: list[str] = field(default_factory=list)

    @property
    def points(self):
        return 3 * self.won + self.drawn

    @property
    def difference(self):
        return self.scored - self.conceded

    def _key(self):
        return self.points, self.difference, self.scored

    def __lt__(self, other):
        return self._key() < other._key()

    def __eq__(self, other):
        return self._key() == other._key()

    def record(self, own, other):
        self.scored += own
        self.conceded += other
        if own > other:
            self.won += 1
        elif own == other:
            self.drawn += 1
        else:
            self.lost += 1
        self.form.append("W" if own > other else "D" if own == other else "L")


def rounds(teams):
    teams = list(teams)
    for _ in range(len(teams) - 1):
        half = len(teams) // 2
        yield list(zip(teams[:half], reversed(teams[half:])))
        teams.insert(1, teams.pop())


def goals(strength):
    return sum(random.random() < strength / 12 for _ in range(12))


names = "Rovers United City Albion Wanderers Athletic Rangers County Town Villa Orient Harriers".split()
champions = {}
for season in range(90):
    teams = [Team(name, 1.0 + i * 0.12) for i, name in enumerate(names)]
    for leg in range(2):
        for pairs in rounds(teams):
            for home, away in pairs:
                a, b = goals(home.strength + 0.2), goals(away.strength)
                home.record(a, b)
                away.record(b, a)
    table = sorted(teams, reverse=True)
    champions[table[0].name] = champions.get(table[0].name, 0) + 1

print(f"{'':>3} {'Team':<10} {'P':>3} {'W':>3} {'D':>3} {'L':>3} {'Diff':>5} {'Pts':>4}  Form")
for place, team in enumerate(table, 1):
    played = team.won + team.drawn + team.lost
    print(f"{place:>2}. {team.name:<10} {played:>3} {team.won:>3} {team.drawn:>3} {team.lost:>3} {team.difference:>+5} {team.points:>4}  {''.join(team.form[-5:])}")
print(textwrap.fill("Champions: " + ", ".join(f"{n} ({c})" for n, c in sorted(champions.items(), key=lambda x: -x[1])), 60))
