import calendar
from collections import defaultdict
from datetime import date, datetime, time, timedelta
from itertools import cycle

STAFF = ["Amira", "Ben", "Chiara", "Daniel", "Eun-ji", "Farid"]
HOLIDAYS = {date(2024, 1, 1), date(2024, 5, 1), date(2024, 12, 25), date(2024, 12, 26)}
SHIFTS = {"early": (time(6), 8), "late": (time(14), 8), "night": (time(22), 8)}


def days(start, end):
    current = start
    while current <= end:
        yield current
        current += timedelta(days=1)


def plan(year):
    people = cycle(STAFF)
    for day in days(date(year, 1, 1), date(year, 12, 31)):
        if day in HOLIDAYS:
            continue
        for name, (start, hours) in SHIFTS.items():
            if day.weekday() >= 5 and name == "late":
                continue
            begins = datetime.combine(day, start)
            yield next(people), name, begins, begins + timedelta(hours=hours)


def pay(begins, ends):
    total, hour = 0.0, begins
    while hour < ends:
        rate = 20.0
        if hour.weekday() >= 5:
            rate *= 1.5
        if hour.hour >= 22 or hour.hour < 6:
            rate *= 1.25
        total += rate
        hour += timedelta(hours=1)
    return total


hours, wages = defaultdict(float), defaultdict(float)
by_month = defaultdict(int)
for person, name, begins, ends in (shift for year in range(2018, 2025) for shift in plan(year)):
    hours[person] += (ends - begins).total_seconds() / 3600
    wages[person] += pay(begins, ends)
    by_month[begins.month] += 1

for person in sorted(STAFF, key=wages.get, reverse=True):
    print(f"{person:<8}{hours[person]:>8.1f} h {wages[person]:>12,.2f}")
for month, count in by_month.items():
    first, length = calendar.monthrange(2024, month)
    print(f"{calendar.month_abbr[month]} starts on {calendar.day_name[first]:<10} {count} shifts in {length} days")
iso = [datetime.fromisoformat(f"2024-{m:02d}-15T08:30:00").strftime("%d %b %Y %H:%M, week %V") for m in range(1, 13)]
print(iso[0], "|", iso[-1])
