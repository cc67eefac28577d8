"""The shop: orders, parcels, invoices, payments, refunds and returns in one SQLite file.

Connections are short-lived, one per question: tools run in threads, and several processes share the file. The first one
that comes makes the tables and the data (seed.py) in one transaction; the others wait for it.
"""

from __future__ import annotations

import re
import sqlite3
import time
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from frontdesk_agents._shop import seed

FILE = "shop.sqlite3"
WAIT_S = 15.0  # for another process that writes; making the whole shop takes well under a second
RETURN_DAYS = 30  # from delivery; knowledge/returns.md says the same to customers
LATE_AFTER_DAYS = 5  # without an event of the carrier


@dataclass(frozen=True)
class Line:
    """One product of an order. `warranty_months` counts from delivery; 0: there is no warranty."""

    name_en: str
    name_zh: str
    quantity: int
    unit_cents: int
    returnable: bool
    warranty_months: int


@dataclass(frozen=True)
class Order:
    number: str
    placed_on: date
    status: str  # preparing, shipped, delivered or cancelled
    total_cents: int
    shipping_cents: int
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Event:
    happened_on: date
    text_en: str
    text_zh: str


@dataclass(frozen=True)
class Parcel:
    tracking: str
    carrier: str
    expected_on: date
    delivered_on: date | None
    events: tuple[Event, ...]  # oldest first, never empty

    def is_late(self, today: date) -> bool:
        """Whether it is overdue, or the carrier has said nothing for too long."""
        quiet = today - self.events[-1].happened_on
        return self.delivered_on is None and (self.expected_on < today or quiet > timedelta(days=LATE_AFTER_DAYS))


@dataclass(frozen=True)
class Payment:
    method: str
    amount_cents: int
    paid_on: date


@dataclass(frozen=True)
class Invoice:
    number: str
    issued_on: date
    total_cents: int
    vat_cents: int


@dataclass(frozen=True)
class Refund:
    reference: str
    amount_cents: int
    reason: str
    made_on: date


@dataclass(frozen=True)
class Return:
    number: str
    reason: str
    status: str  # open, received or refunded
    opened_on: date


class RefundTooHigh(Exception):
    """More than the customer was charged too much. `available_cents` is what can be refunded, 0 or less: nothing."""

    def __init__(self, available_cents: int) -> None:
        super().__init__(f"only {available_cents} cents can be refunded")
        self.available_cents = available_cents


def order_number(text: str) -> str:
    """ "a 10023", "Ａ－１００２３" or "A10023" -> "A-10023". Anything else comes back trimmed, and no order has it."""
    plain = unicodedata.normalize("NFKC", text).strip()
    match = re.fullmatch(r"[Aa][\s\-\u2010-\u2015\u2212]*([0-9]{5})", plain)
    return f"A-{match[1]}" if match else plain[:40]


class Shop:
    """Questions to the shop and the two things an agent may change: open a return, issue a refund."""

    def __init__(self, path: Path, today: date) -> None:
        self.path = path
        self.today = today

    @classmethod
    def open(cls, data_dir: Path, today: date | None = None) -> Shop:
        """The shop in `data_dir`, made on first use. `today` is for tests; by default the machine's date."""
        data_dir.mkdir(parents=True, exist_ok=True)
        shop = cls(data_dir / FILE, today or date.today())
        with shop._connect() as db:
            shop._prepare(db)
        return shop

    def order(self, number: str) -> Order | None:
        with self._connect() as db:
            row = db.execute("SELECT * FROM orders WHERE number = ?", (number,)).fetchone()
            if row is None:
                return None
            lines = db.execute(
                "SELECT * FROM order_lines JOIN products USING (sku) WHERE order_number = ? ORDER BY position",
                (number,),
            ).fetchall()
        return Order(
            row["number"],
            _date(row["placed_on"]),
            row["status"],
            row["total_cents"],
            row["shipping_cents"],
            tuple(_line(line) for line in lines),
        )

    def parcel(self, number: str) -> Parcel | None:
        """The newest parcel of an order, None while there is none."""
        with self._connect() as db:
            row = db.execute(
                "SELECT * FROM parcels WHERE order_number = ? ORDER BY shipped_on DESC LIMIT 1", (number,)
            ).fetchone()
            if row is None:
                return None
            events = db.execute(
                "SELECT * FROM tracking_events WHERE tracking = ? ORDER BY position", (row["tracking"],)
            ).fetchall()
        return Parcel(
            row["tracking"],
            row["carrier"],
            _date(row["expected_on"]),
            _date(row["delivered_on"]) if row["delivered_on"] else None,
            tuple(Event(_date(event["happened_on"]), event["text_en"], event["text_zh"]) for event in events),
        )

    def payments(self, number: str) -> list[Payment]:
        with self._connect() as db:
            rows = db.execute("SELECT * FROM payments WHERE order_number = ? ORDER BY id", (number,)).fetchall()
        return [Payment(row["method"], row["amount_cents"], _date(row["paid_on"])) for row in rows]

    def refunds(self, number: str) -> list[Refund]:
        with self._connect() as db:
            rows = db.execute("SELECT * FROM refunds WHERE order_number = ? ORDER BY reference", (number,)).fetchall()
        return [_refund(row) for row in rows]

    def invoice(self, number: str) -> Invoice | None:
        with self._connect() as db:
            row = db.execute("SELECT * FROM invoices WHERE order_number = ?", (number,)).fetchone()
        return row and Invoice(row["number"], _date(row["issued_on"]), row["total_cents"], row["vat_cents"])

    def return_of(self, number: str) -> Return | None:
        with self._connect() as db:
            return _find_return(db, number)

    def open_return(self, number: str, reason: str, key: str) -> Return:
        """Open a return for the order, or give the one it has: twice with the same key changes nothing."""
        with self._connect() as db, _transaction(db):
            if found := _find_return(db, number):
                return found
            row = (
                _next(db, "returns", "number", "R", 20001),
                number,
                reason[:500],
                "open",
                self.today.isoformat(),
                key,
            )
            db.execute("INSERT INTO returns VALUES (?, ?, ?, ?, ?, ?)", row)
            return Return(row[0], row[2], "open", self.today)

    def refund_overcharge(self, number: str, cents: int, reason: str, key: str) -> Refund:
        """Refund `cents` of what was paid above the order's total and not refunded yet, else RefundTooHigh.

        Twice with the same key: one refund.
        """
        with self._connect() as db, _transaction(db):
            done = db.execute("SELECT * FROM refunds WHERE idempotency_key = ?", (key,)).fetchone()
            if done is not None:
                return _refund(done)
            total = db.execute("SELECT total_cents FROM orders WHERE number = ?", (number,)).fetchone()[0]
            available = _sum(db, "payments", number) - total - _sum(db, "refunds", number)
            if cents > available:
                raise RefundTooHigh(available)
            row = (
                _next(db, "refunds", "reference", "F", 30001),
                number,
                cents,
                reason[:500],
                self.today.isoformat(),
                key,
            )
            db.execute("INSERT INTO refunds VALUES (?, ?, ?, ?, ?, ?)", row)
            return Refund(row[0], cents, row[3], self.today)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)) as db:
            db.row_factory = sqlite3.Row
            yield db

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Make the shop when the file is new, and move its dates when a day has passed. Safe in many processes."""
        if _version(db) != seed.SCHEMA_VERSION:
            _use_wal(db)
            with _transaction(db):
                if _version(db) != seed.SCHEMA_VERSION:  # another process may have been first
                    seed.create(db, self.today)
        if _seeded_on(db) < self.today:
            with _transaction(db):
                if _seeded_on(db) < self.today:
                    seed.move_dates(db, self.today)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Everything inside or nothing; the write lock is taken at once, so that what is read stays true."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _use_wal(db: sqlite3.Connection) -> None:
    """Readers then never wait for a writer. SQLite's own waiting does not cover this switch, so we wait here."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _seeded_on(db: sqlite3.Connection) -> date:
    return _date(db.execute("SELECT value FROM meta WHERE key = 'seeded_on'").fetchone()[0])


def _find_return(db: sqlite3.Connection, number: str) -> Return | None:
    row = db.execute("SELECT * FROM returns WHERE order_number = ?", (number,)).fetchone()
    return row and Return(row["number"], row["reason"], row["status"], _date(row["opened_on"]))


def _sum(db: sqlite3.Connection, table: str, number: str) -> int:
    query = f"SELECT coalesce(sum(amount_cents), 0) FROM {table} WHERE order_number = ?"  # noqa: S608 - our own names
    return int(db.execute(query, (number,)).fetchone()[0])


def _next(db: sqlite3.Connection, table: str, column: str, letter: str, first: int) -> str:
    """The next free number, such as R-20003; the caller holds the write lock."""
    query = f"SELECT max(CAST(substr({column}, 3) AS INTEGER)) FROM {table}"  # noqa: S608 - our own names
    return f"{letter}-{max(first, (db.execute(query).fetchone()[0] or 0) + 1)}"


def _line(row: sqlite3.Row) -> Line:
    return Line(
        row["name_en"],
        row["name_zh"],
        row["quantity"],
        row["unit_cents"],
        bool(row["returnable"]),
        row["warranty_months"],
    )


def _refund(row: sqlite3.Row) -> Refund:
    return Refund(row["reference"], row["amount_cents"], row["reason"], _date(row["made_on"]))


def _date(text: str) -> date:
    return date.fromisoformat(text)
