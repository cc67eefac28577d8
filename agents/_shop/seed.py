"""The shop's tables and its made-up data. Nobody in here exists; carriers, products and e-mail addresses are invented.

Orders to try, the same on every machine (days are counted from today, so they never grow old):

  A-10015  charged twice (two card payments of 74.80 EUR), delivered
  A-10023  charged twice (two card payments of 94.80 EUR); the parcel is in transit, expected in 2 days
  A-10031  delivered 4 days ago; can be returned
  A-10047  shipped 9 days ago, no news from the carrier for 6 days: delayed
  A-10058  delivered 52 days ago: the return window is over, the warranty is not
  A-10064  placed today, being prepared: can still be changed or cancelled
  A-10072  delivered 12 days ago; a return (R-20001) is open, the parcel is not back yet
  A-10085  returned (R-20002) and refunded (F-30001)
  A-10090  charged three times
  A-10096  bought 30 months ago: the warranty is over
  A-10104  cancelled before it was sent, refunded (F-30002)
  A-10112  made to measure and a gift card: cannot be returned
  A-10119  charged twice, the second payment is refunded already (F-30003)

All other numbers from A-10001 to A-10120 are ordinary orders from a fixed random seed.
"""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass
from datetime import date, timedelta

SCHEMA_VERSION = 1  # PRAGMA user_version of a complete shop
VAT_PERCENT = 19
SHIPPING_CENTS = 490
FREE_SHIPPING_FROM_CENTS = 6000

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE customers (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, city TEXT NOT NULL, country TEXT NOT NULL
) STRICT;
CREATE TABLE products (
  sku TEXT PRIMARY KEY, name_en TEXT NOT NULL, name_zh TEXT NOT NULL, price_cents INTEGER NOT NULL,
  warranty_months INTEGER NOT NULL, returnable INTEGER NOT NULL
) STRICT;
CREATE TABLE orders (
  number TEXT PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers(id), placed_on TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('preparing', 'shipped', 'delivered', 'cancelled')),
  shipping_cents INTEGER NOT NULL, total_cents INTEGER NOT NULL
) STRICT;
CREATE TABLE order_lines (
  order_number TEXT NOT NULL REFERENCES orders(number), position INTEGER NOT NULL,
  sku TEXT NOT NULL REFERENCES products(sku), quantity INTEGER NOT NULL, unit_cents INTEGER NOT NULL,
  PRIMARY KEY (order_number, position)
) STRICT;
CREATE TABLE parcels (
  tracking TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders(number), carrier TEXT NOT NULL,
  shipped_on TEXT NOT NULL, expected_on TEXT NOT NULL, delivered_on TEXT
) STRICT;
CREATE INDEX parcels_of_order ON parcels(order_number);
CREATE TABLE tracking_events (
  tracking TEXT NOT NULL REFERENCES parcels(tracking), position INTEGER NOT NULL, happened_on TEXT NOT NULL,
  text_en TEXT NOT NULL, text_zh TEXT NOT NULL, PRIMARY KEY (tracking, position)
) STRICT;
CREATE TABLE invoices (
  number TEXT PRIMARY KEY, order_number TEXT NOT NULL UNIQUE REFERENCES orders(number), issued_on TEXT NOT NULL,
  total_cents INTEGER NOT NULL, vat_cents INTEGER NOT NULL
) STRICT;
CREATE TABLE payments (
  id INTEGER PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders(number), method TEXT NOT NULL,
  amount_cents INTEGER NOT NULL, paid_on TEXT NOT NULL
) STRICT;
CREATE INDEX payments_of_order ON payments(order_number);
CREATE TABLE refunds (
  reference TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders(number), amount_cents INTEGER NOT NULL,
  reason TEXT NOT NULL, made_on TEXT NOT NULL, idempotency_key TEXT NOT NULL UNIQUE
) STRICT;
CREATE INDEX refunds_of_order ON refunds(order_number);
CREATE TABLE returns (
  number TEXT PRIMARY KEY, order_number TEXT NOT NULL UNIQUE REFERENCES orders(number), reason TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('open', 'received', 'refunded')), opened_on TEXT NOT NULL,
  idempotency_key TEXT NOT NULL UNIQUE
) STRICT;
"""

# Seeded dates, moved forward with the calendar. Rows that customers made keep theirs (their key is not 'seed:...').
SEEDED_DATES = (
    ("orders", ("placed_on",), ""),
    ("parcels", ("shipped_on", "expected_on", "delivered_on"), ""),
    ("tracking_events", ("happened_on",), ""),
    ("invoices", ("issued_on",), ""),
    ("payments", ("paid_on",), ""),
    ("refunds", ("made_on",), "WHERE idempotency_key LIKE 'seed:%'"),
    ("returns", ("opened_on",), "WHERE idempotency_key LIKE 'seed:%'"),
)

# sku, English, Chinese, cents, months of warranty, returnable
PRODUCTS = (
    ("LO-101", "Oak bedside lamp", "橡木床头灯", 5990, 24, 1),
    ("LO-102", "Luma desk lamp", "Luma 台灯", 4990, 24, 1),
    ("LO-103", "Luma smart bulbs (3)", "Luma 智能灯泡（3只装）", 3490, 24, 1),
    ("LO-104", "Oak wall shelf", "橡木墙架", 4490, 24, 1),
    ("LO-105", "Stoneware mug set", "粗陶马克杯套装", 2990, 24, 1),
    ("LO-106", "Linen cushion", "亚麻靠垫", 2490, 24, 1),
    ("LO-107", "Luma Mini speaker", "Luma Mini 音箱", 4490, 24, 1),
    ("LO-108", "Mist humidifier", "Mist 加湿器", 5490, 24, 1),
    ("LO-109", "30 W fast charger", "30W 快充充电器", 1990, 24, 1),
    ("LO-110", "Wool throw", "羊毛盖毯", 6990, 24, 1),
    ("LO-111", "Glass vase", "玻璃花瓶", 3290, 24, 1),
    ("LO-112", "Luma air sensor", "Luma 空气检测仪", 3990, 24, 1),
    ("LO-113", "Oak chopping board", "橡木砧板", 2790, 24, 1),
    ("LO-114", "Travel kettle", "旅行电热水壶", 3690, 24, 1),
    ("LO-115", "Made-to-measure curtain", "定制窗帘", 8900, 24, 0),
    ("LO-116", "Gift card", "礼品卡", 2500, 0, 0),
)
PRICES = {sku: cents for sku, _, _, cents, _, _ in PRODUCTS}

FIRST_NAMES = ("Anna", "Ben", "Clara", "David", "Elif", "Finn", "Greta", "Hugo", "Ines", "Jonas")
LAST_NAMES = ("Adler", "Berg", "Castellan", "Duval", "Ekholm", "Farkas", "Gruber", "Holt", "Ivers", "Jansen")
CITIES = (("Hamburg", "DE"), ("Leipzig", "DE"), ("Graz", "AT"), ("Utrecht", "NL"), ("Ghent", "BE"), ("Lyon", "FR"))
CARRIERS = ("Parcelo", "Nordwind Express")
METHODS = ("Visa ending 4242", "Mastercard ending 5100", "PayPal", "bank transfer")
CUSTOMERS = 40
FIRST_NUMBER, LAST_NUMBER = 10001, 10120
RANDOM_SEED = 20  # any fixed number: the same shop everywhere


@dataclass(frozen=True)
class Plan:
    """How one order went. Ages are days before today; None: it did not happen (yet)."""

    number: str
    placed: int
    skus: tuple[str, ...]
    shipped: int | None = None
    delivered: int | None = None
    quiet_since: int | None = None  # the carrier's last event, when the parcel is stuck
    expected_in: int = 2  # days from today, when not delivered
    charges: int = 1
    cancelled: bool = False
    returned: str = ""  # "", "open" or "refunded"
    refund: str = ""  # "", or the reason of a refund that was made


KNOWN = (
    Plan("A-10015", placed=20, skus=("LO-103", "LO-112"), shipped=19, delivered=16, charges=2),
    Plan("A-10023", placed=3, skus=("LO-102", "LO-107"), shipped=2, charges=2),
    Plan("A-10031", placed=8, skus=("LO-101", "LO-106"), shipped=7, delivered=4),
    Plan("A-10047", placed=10, skus=("LO-108",), shipped=9, quiet_since=6, expected_in=-3),
    Plan("A-10058", placed=56, skus=("LO-107", "LO-109"), shipped=55, delivered=52),
    Plan("A-10064", placed=0, skus=("LO-110",)),
    Plan("A-10072", placed=16, skus=("LO-111", "LO-105"), shipped=15, delivered=12, returned="open"),
    Plan(
        "A-10085", placed=40, skus=("LO-104",), shipped=39, delivered=36, returned="refunded", refund="return R-20002"
    ),
    Plan("A-10090", placed=5, skus=("LO-113", "LO-105"), shipped=4, charges=3),
    Plan("A-10096", placed=915, skus=("LO-102",), shipped=914, delivered=911),
    Plan("A-10104", placed=6, skus=("LO-114",), cancelled=True, refund="order cancelled"),
    Plan("A-10112", placed=13, skus=("LO-115", "LO-116"), shipped=11, delivered=7),
    Plan("A-10119", placed=18, skus=("LO-103", "LO-112"), shipped=17, delivered=14, charges=2, refund="double charge"),
)


def create(db: sqlite3.Connection, today: date) -> None:
    """All tables and all rows, inside the transaction that the caller has begun."""
    for statement in SCHEMA.split(";"):
        if statement.strip():
            db.execute(statement)
    db.execute("INSERT INTO meta VALUES ('seeded_on', ?)", (today.isoformat(),))
    db.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?)", PRODUCTS)
    dice = random.Random(RANDOM_SEED)  # noqa: S311 - made-up data, nothing secret
    for number in range(CUSTOMERS):
        first, last = FIRST_NAMES[number % 10], LAST_NAMES[(number + number // 10) % 10]
        email = f"{first}.{last}.{number + 1}@mail.example".lower()
        db.execute(
            "INSERT INTO customers VALUES (?, ?, ?, ?, ?)", (number + 1, f"{first} {last}", email, *dice.choice(CITIES))
        )
    known = {plan.number: plan for plan in KNOWN}
    for number in range(FIRST_NUMBER, LAST_NUMBER + 1):
        ordinary = _ordinary(f"A-{number}", dice)  # always rolled, so that one more known order moves no other
        _insert(db, known.get(ordinary.number, ordinary), today, dice)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def move_dates(db: sqlite3.Connection, today: date) -> None:
    """Move the seeded dates by the days since they were written, so that a parcel stays "expected in 2 days"."""
    seeded = date.fromisoformat(db.execute("SELECT value FROM meta WHERE key = 'seeded_on'").fetchone()[0])
    days = f"{(today - seeded).days:+d} days"
    for table, columns, which in SEEDED_DATES:
        changes = ", ".join(f"{column} = date({column}, :days)" for column in columns)
        db.execute(f"UPDATE {table} SET {changes} {which}", {"days": days})  # noqa: S608 - names from the tuple above
    db.execute("UPDATE meta SET value = ? WHERE key = 'seeded_on'", (today.isoformat(),))


def _ordinary(number: str, dice: random.Random) -> Plan:
    placed = dice.randint(0, 200)
    skus = tuple(dice.sample([sku for sku in PRICES if sku not in ("LO-115", "LO-116")], dice.randint(1, 3)))
    if placed < 2:
        return Plan(number, placed, skus)
    if placed < 6:
        return Plan(number, placed, skus, shipped=placed - 1, expected_in=dice.randint(1, 3))
    return Plan(number, placed, skus, shipped=placed - 1, delivered=placed - dice.randint(3, 5))


def _insert(db: sqlite3.Connection, plan: Plan, today: date, dice: random.Random) -> None:
    goods = sum(PRICES[sku] for sku in plan.skus)
    shipping = 0 if goods >= FREE_SHIPPING_FROM_CENTS else SHIPPING_CENTS
    total, placed_on, method = goods + shipping, _ago(today, plan.placed), dice.choice(METHODS)
    db.execute(
        "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)",
        (plan.number, dice.randint(1, CUSTOMERS), placed_on, _status(plan), shipping, total),
    )
    db.executemany(
        "INSERT INTO order_lines VALUES (?, ?, ?, 1, ?)",
        [(plan.number, place, sku, PRICES[sku]) for place, sku in enumerate(plan.skus, 1)],
    )
    method = METHODS[0] if plan.charges > 1 else method
    for _ in range(plan.charges):
        db.execute(
            "INSERT INTO payments (order_number, method, amount_cents, paid_on) VALUES (?, ?, ?, ?)",
            (plan.number, method, total, placed_on),
        )
    vat = round(total * VAT_PERCENT / (100 + VAT_PERCENT))
    invoice = plan.number.replace("A-", "INV-")
    db.execute("INSERT INTO invoices VALUES (?, ?, ?, ?, ?)", (invoice, plan.number, placed_on, total, vat))
    if plan.shipped is not None:
        _insert_parcel(db, plan, today, dice.choice(CARRIERS))
    _insert_aftermath(db, plan, total, today)


def _insert_parcel(db: sqlite3.Connection, plan: Plan, today: date, carrier: str) -> None:
    assert plan.shipped is not None  # noqa: S101 - the caller looked
    tracking = plan.number.replace("A-", "LT") + "EU"
    expected = plan.delivered if plan.delivered is not None else -plan.expected_in
    delivered_on = None if plan.delivered is None else _ago(today, plan.delivered)
    db.execute(
        "INSERT INTO parcels VALUES (?, ?, ?, ?, ?, ?)",
        (tracking, plan.number, carrier, _ago(today, plan.shipped), _ago(today, expected), delivered_on),
    )
    for place, (age, en, zh) in enumerate(_events(plan, plan.shipped), 1):
        db.execute("INSERT INTO tracking_events VALUES (?, ?, ?, ?, ?)", (tracking, place, _ago(today, age), en, zh))


def _events(plan: Plan, shipped: int) -> list[tuple[int, str, str]]:
    """The carrier's events, oldest first: age in days, English, Chinese."""
    events = [(shipped, "was handed to the carrier", "已交给承运商")]
    if plan.quiet_since is not None:
        return [*events, (plan.quiet_since, "arrived at the sorting centre in Hanover", "到达汉诺威分拣中心")]
    if plan.delivered is None:
        return [*events, (max(shipped - 1, 0), "left the sorting centre in Leipzig", "已离开莱比锡分拣中心")]
    return [
        *events,
        (plan.delivered + 1, "left the sorting centre in Leipzig", "已离开莱比锡分拣中心"),
        (plan.delivered, "was delivered", "已送达"),
    ]


def _insert_aftermath(db: sqlite3.Connection, plan: Plan, total: int, today: date) -> None:
    """The return and the refund that an order had, with the next free numbers."""
    if plan.returned:
        age = (plan.delivered or 0) - 5
        count = db.execute("SELECT count(*) FROM returns").fetchone()[0]
        row = (
            f"R-{20001 + count}",
            plan.number,
            "does not fit",
            plan.returned,
            _ago(today, age),
            f"seed:{plan.number}",
        )
        db.execute("INSERT INTO returns VALUES (?, ?, ?, ?, ?, ?)", row)
    if plan.refund:
        age = max(min(plan.placed, plan.delivered or plan.placed) - 10, 1)
        count = db.execute("SELECT count(*) FROM refunds").fetchone()[0]
        key = f"seed:{plan.number}"
        row2 = (f"F-{30001 + count}", plan.number, total, plan.refund, _ago(today, age), key)
        db.execute("INSERT INTO refunds VALUES (?, ?, ?, ?, ?, ?)", row2)


def _status(plan: Plan) -> str:
    if plan.cancelled:
        return "cancelled"
    if plan.delivered is not None:
        return "delivered"
    return "preparing" if plan.shipped is None else "shipped"


def _ago(today: date, days: int) -> str:
    return (today - timedelta(days=days)).isoformat()
