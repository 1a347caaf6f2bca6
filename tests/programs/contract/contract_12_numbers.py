import decimal
import fractions

result = {
    "huge": 2**64,
    "nan": float("nan"),
    "infinities": [float("inf"), float("-inf")],
    "complex": 1 + 2j,
    "decimal": decimal.Decimal("1.10"),
    "fraction": fractions.Fraction(1, 3),
}

# expect result: {"huge": "18446744073709551616", "nan": "NaN", "infinities": ["Infinity", "-Infinity"], "complex": "(1+2j)", "decimal": "1.10", "fraction": "1/3"}
