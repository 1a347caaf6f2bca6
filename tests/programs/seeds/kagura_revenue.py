sales_data = [
    {"product": "A", "revenue": 1000},
    {"product": "B", "revenue": 1500},
    {"product": "C", "revenue": 800},
]
result = sum(row["revenue"] for row in sales_data)

# with policy: strict
# expect result: 3300
