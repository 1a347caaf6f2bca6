import json
import textwrap
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from string import Template

RATES = {"standard": Decimal("0.19"), "reduced": Decimal("0.07"), "none": Decimal(0)}
HEAD = Template("Invoice $number\nDate: $day   Due: $due\nTo: $customer\n")


@dataclass(order=True, frozen=True)
class Line:
    text: str = field(compare=False)
    quantity: int
    price: Decimal
    rate: str = "standard"

    @property
    def net(self):
        return self.quantity * self.price


@dataclass
class Invoice:
    number: int
    customer: str
    day: date
    lines: list[Line] = field(default_factory=list)

    def taxes(self):
        sums = defaultdict(Decimal)
        for line in self.lines:
            sums[line.rate] += line.net * RATES[line.rate]
        return {rate: cents(value) for rate, value in sums.items()}

    def total(self):
        return cents(sum(line.net for line in self.lines)) + sum(self.taxes().values())

    def render(self):
        due = self.day + timedelta(days=14)
        parts = [HEAD.substitute(number=f"{self.number:06d}", day=self.day, due=f"{due:%d.%m.%Y}", customer=self.customer)]
        for line in sorted(self.lines, reverse=True):
            first, *rest = textwrap.wrap(line.text, 24)
            parts.append(f"{first:<26}{line.quantity:>4} x {line.price:>9,.2f} = {line.net:>11,.2f}")
            parts.extend("  " + more for more in rest)
        parts.extend(f"{rate:<26}{tax:>30,.2f}" for rate, tax in self.taxes().items())
        parts.append(f"{'Total'.upper():<26}{self.total():>30,.2f}".replace(",", " "))
        return "\n".join(parts)


def cents(value):
    return Decimal(value).quantize(Decimal("0.01"), ROUND_HALF_UP)


ITEMS = ["Consulting on site with travel expenses", "Book", "Printer paper, A4, 500 sheets", "Coffee beans", "Licence for one year"]
invoices = []
for n in range(220):
    invoice = Invoice(n + 1, f"Customer {chr(65 + n % 26)} GmbH & Co.", date(2024, 1, 1) + timedelta(days=n))
    for k in range(1 + n % 6):
        rate = list(RATES)[(n + k) % 3]
        invoice.lines.append(Line(ITEMS[(n * k) % 5], 1 + (n + k) % 7, Decimal(n * 37 % 1000) / 8 + k, rate))
    invoices.append(invoice)
texts = [invoice.render() for invoice in invoices]
print(texts[41])
print(sum(map(len, texts)), sum(invoice.total() for invoice in invoices))
text = json.dumps([asdict(invoice) for invoice in invoices], default=str, indent=1)
print(len(text), json.loads(text)[-1]["lines"][0])
