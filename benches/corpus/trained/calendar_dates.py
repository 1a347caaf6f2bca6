from collections import Counter
from datetime import date, datetime, timedelta

start = date(2020, 1, 1)
days = [start + timedelta(days=n) for n in range(2_500)]
weekdays = Counter(day.strftime("%A") for day in days)
months = Counter(day.isoformat()[:7] for day in days)
parsed = [datetime.strptime(f"{day} 12:30:15", "%Y-%m-%d %H:%M:%S") for day in days[:300]]
gaps = [(b - a).total_seconds() for a, b in zip(parsed, parsed[1:])]
stamps = [datetime.fromisoformat(f"{day}T08:00:00+02:00").timestamp() for day in days[:1_000]]
print(weekdays.most_common(2), len(months), sum(gaps), sum(stamps))
