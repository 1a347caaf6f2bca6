from collections import defaultdict
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, getcontext
from typing import NamedTuple

getcontext().prec = 28
CENT = Decimal("0.01")


class Trade(NamedTuple):
    symbol: str
    quantity: int
    price: Decimal
    fee: Decimal = Decimal("1.50")


@dataclass
class Lot:
    quantity: int
    price: Decimal


class NotEnough(ValueError):
    pass


class Portfolio:
    def __init__(self, cash):
        self.cash = Decimal(cash)
        self.lots = defaultdict(list)
        self.gains = defaultdict(Decimal)

    def execute(self, trade):
        value = trade.quantity * trade.price
        if trade.quantity > 0:
            if value + trade.fee > self.cash:
                raise NotEnough(f"{value + trade.fee} needed, {self.cash} left")
            self.lots[trade.symbol].append(Lot(trade.quantity, trade.price))
        else:
            self.sell(trade.symbol, -trade.quantity, trade.price)
        self.cash -= value + trade.fee

    def sell(self, symbol, quantity, price):
        if quantity > sum(lot.quantity for lot in self.lots[symbol]):
            raise NotEnough(f"not {quantity} of {symbol}")
        while quantity:
            lot = self.lots[symbol][0]
            sold = min(quantity, lot.quantity)
            self.gains[symbol] += sold * (price - lot.price)
            lot.quantity -= sold
            quantity -= sold
            if not lot.quantity:
                self.lots[symbol].pop(0)

    def report(self, prices):
        for symbol, lots in sorted(self.lots.items()):
            held = sum(lot.quantity for lot in lots)
            cost = sum((lot.quantity * lot.price for lot in lots), Decimal(0))
            value = held * prices[symbol]
            gain = (value / cost - 1) * 100 if cost else Decimal(0)
            yield f"{symbol:<5}{held:>6}{value.quantize(CENT, ROUND_HALF_EVEN):>14,}{gain:>9.2f} %{self.gains[symbol]:>12.2f}"


portfolio, refused = Portfolio("250000"), 0
prices = {"ABC": Decimal("101.10"), "DEF": Decimal("57.25"), "GHI": Decimal("12.875"), "JKL": Decimal("333")}
state = 12
for step in range(2200):
    state = state * 16807 % 2147483647
    symbol = list(prices)[state % 4]
    prices[symbol] = (prices[symbol] * (1 + Decimal(state % 41 - 20) / 2000)).quantize(Decimal("0.0001"))
    try:
        portfolio.execute(Trade(symbol, (state >> 5) % 31 - 14 or 1, prices[symbol]))
    except NotEnough:
        refused += 1
print("\n".join(portfolio.report(prices)))
print("cash", portfolio.cash.quantize(CENT), "refused", refused)
