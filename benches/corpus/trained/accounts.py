"""A bank with accounts, transfers and errors."""


class InsufficientFunds(Exception):
    pass


class Account:
    def __init__(self, owner, balance=0):
        self.owner, self.balance, self.history = owner, balance, []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance += amount
        self.history.append(("deposit", amount))

    def withdraw(self, amount):
        if amount > self.balance:
            raise InsufficientFunds(f"{self.owner} has only {self.balance}")
        self.balance -= amount
        self.history.append(("withdraw", amount))


accounts = {name: Account(name, 100) for name in ("ann", "bob", "cyd", "dan")}
names, failed = list(accounts), 0
for i in range(30_000):
    source, target = accounts[names[i % 4]], accounts[names[(i * 7 + 1) % 4]]
    try:
        source.withdraw(i % 60)
        target.deposit(i % 60)
    except InsufficientFunds:
        failed += 1
    except ValueError as error:
        failed += len(str(error)) > 100
print({name: account.balance for name, account in accounts.items()}, failed)
