def parse(text):
    try:
        return int(text)
    except ValueError as error:
        error.add_note("the text came from a form")
        raise RuntimeError("cannot read the amount") from error


parse("ten")

# expect error: "RuntimeError: cannot read the amount"
# expect line: 6
# expect stderr has: ["ValueError: invalid literal for int() with base 10: 'ten'", "the text came from a form", "The above exception was the direct cause of the following exception:", "return int(text)", "RuntimeError: cannot read the amount"]
# expect stderr lacks: ["belljar"]
