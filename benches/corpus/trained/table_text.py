import textwrap

rows = [("Name", "Qty", "Price")] + [(f"Product {i}", i % 40, i * 3.75) for i in range(900)]
widths = [max(len(str(row[c])) for row in rows) for c in range(3)]
lines = []
for row in rows:
    name, quantity, price = row
    shown = f"{price:>10.2f}" if isinstance(price, float) else f"{price:>10}"
    lines.append(f"| {name:<{widths[0]}} | {quantity!s:^{widths[1]}} | {shown} |")
total = sum(q * p for _, q, p in rows[1:])
lines.append("=" * len(lines[0]))
wrapped = textwrap.wrap("the quick brown fox jumps over the lazy dog " * 120, 70)
indented = textwrap.indent("\n".join(wrapped), "    ")
print(lines[5], len("\n".join(lines)), f"{total:,.2f}", len(wrapped), len(textwrap.dedent(indented)))
