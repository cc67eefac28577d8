"""app.offline.classifier, .reading and .decision: what a message is about, and what follows from it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

import numpy as np
import pytest

from app.offline.classifier import FLOOR_FEW, Classifier, Match, Subject, prototypes
from app.offline.decision import MARGIN, STICKY_MARGIN, Decision, Rule, decide
from app.offline.directory import Directory
from app.offline.encoder import SentenceEncoder
from app.offline.reading import Part, Reading, is_slot_only, read_messages
from app.offline.remarks import Remark, Remarks
from app.offline.sentences import MAX_CHARS, MAX_SENTENCES, split
from app.offline.slots import Slot
from app.offline.softmax import fit_dual, softmax
from handoffs.roster import Roster

ORDER = Slot("order_number", "Order number, like A-10023", pattern=r"^A-\d{5}$")


@pytest.fixture(scope="module")
def classifier(roster: Roster, encoder: SentenceEncoder) -> Classifier:
    fitted = Classifier.fit(Directory.of(roster).subjects, encoder)
    assert fitted is not None
    return fitted


def reading(best: float, second: float, similarity: float = 0.6, text: str = "a request") -> Reading:
    """A request that is `best` about rooms and `second` about money."""
    match = Match(
        text,
        probabilities={"rooms": best, "money": second},
        similarities={"rooms": similarity, "money": similarity - 0.1 if best > second else similarity + 0.1},
        nearest={"rooms": "near rooms", "money": "near money"},
    )
    return Reading(Part(text, Remark("greeting", 0.0), match))


def test_clauses_of_the_intended_use_are_prototypes() -> None:
    """The sentence, its clauses in each language, and the examples stand for an agent; no text twice."""
    subject = Subject("a", ("Invoices, refunds and payments.", "发票、退款"), ("my bill", "my bill"))
    assert prototypes(subject) == [
        "Invoices, refunds and payments.", "Invoices", "refunds", "payments", "发票、退款", "发票", "退款", "my bill",
    ]  # fmt: skip


def test_examples_of_an_agent_are_found_again(classifier: Classifier) -> None:
    """Rephrased examples go to their agent, with probabilities that add up to 1."""
    for text, agent in (("I would like a double room", "rooms"), ("you charged my card two times", "money")):
        match = classifier.match([text])[0]
        assert match.best == agent
        assert abs(sum(match.probabilities.values()) - 1) < 1e-5


def test_without_examples_the_descriptions_decide(encoder: SentenceEncoder) -> None:
    """Descriptions alone route, with the fixed floor."""
    subjects = [Subject("a", ("Invoices and payments",)), Subject("b", ("Parcels and delivery",))]
    fitted = Classifier.fit(subjects, encoder)
    assert fitted is not None
    assert fitted.match(["where is my package"])[0].best == "b"
    assert fitted.floor == FLOOR_FEW


def test_nothing_to_fit_is_no_classifier(encoder: SentenceEncoder) -> None:
    """Subjects without words give None."""
    assert Classifier.fit([Subject("a", ("",))], encoder) is None


def test_one_subject_takes_all(encoder: SentenceEncoder) -> None:
    """A desk with one specialist has no second best to lead."""
    fitted = Classifier.fit([Subject("a", ("Everything",))], encoder)
    assert fitted is not None
    assert fitted.match(["hello"])[0].margin == 1.0


def test_ten_agents_with_twenty_examples_are_fitted_within_a_second(encoder: SentenceEncoder) -> None:
    """Fitting is quick enough for every start and every reload."""
    subjects = [
        Subject(f"a{k}", (f"Topic {k}",), tuple(f"question {k} {n} please" for n in range(20))) for k in range(10)
    ]
    encoder.encode([text for subject in subjects for text in prototypes(subject)])
    begun = time.process_time()
    Classifier.fit(subjects, encoder)
    assert time.process_time() - begun < 1.0


def test_the_fit_separates_what_can_be_separated() -> None:
    """Dual softmax regression puts its training rows where they belong, whatever the class sizes."""
    rng = np.random.default_rng(7)
    rows = np.concatenate([rng.normal(2, 1, (40, 4)), rng.normal(-2, 1, (4, 4))]).astype(np.float32)
    labels = np.array([0] * 40 + [1] * 4)
    gram = rows @ rows.T
    logits = np.asarray(gram @ fit_dual(gram, labels, 2), dtype=np.float32)
    predicted = softmax(logits).argmax(axis=1)
    assert (predicted == labels).mean() > 0.95


def test_a_clear_lead_transfers_and_a_narrow_one_asks() -> None:
    """p1 - p2 decides between a transfer and a question; below the floor nothing moves."""
    assert decide([reading(0.8, 0.2)], floor=0.4) == decide([reading(0.8, 0.2)], floor=0.4)
    assert decide([reading(0.5 + MARGIN, 0.5 - MARGIN)], floor=0.4).target == "rooms"
    asked = decide([reading(0.52, 0.48)], floor=0.4)
    assert (asked.rule, asked.options) == (Rule.ASK, ("rooms", "money"))
    assert decide([reading(0.9, 0.1, similarity=0.3)], floor=0.4).rule is Rule.STAY


def test_a_specialist_lets_go_only_for_a_much_better_one() -> None:
    """Sticky: another agent must lead by far, in probability and in similarity."""
    other = 0.5 + STICKY_MARGIN / 2
    assert decide([reading(1 - other - 0.01, other + 0.01)], floor=0.4, me="rooms").rule is Rule.TRANSFER
    assert decide([reading(0.4, 0.6)], floor=0.4, me="rooms").rule is Rule.OWN


def test_what_is_the_start_agents_own_goes_nowhere() -> None:
    """An unspecific message that is most like the start agent's examples stays in triage."""
    assert decide([reading(0.9, 0.1)], floor=0.4, home="rooms").rule is Rule.STAY


def test_no_words_are_no_decision() -> None:
    """Nothing to read gives the empty rule."""
    assert decide([], floor=0.4) == Decision(Rule.EMPTY)


def test_a_decision_carries_why_and_can_be_stored(classifier: Classifier, encoder: SentenceEncoder) -> None:
    """The trace names the probabilities, the nearest prototype and the floor, as JSON."""
    decision = decide(read_messages(["I need the invoice"], classifier, Remarks(encoder)), classifier.floor)
    trace = json.loads(json.dumps(asdict(decision)))["trace"][0]
    assert trace["nearest"] in ("send me the invoice again", "我需要发票")
    assert trace["floor"] == classifier.floor
    assert set(trace["probabilities"]) == {"rooms", "money"}


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("A-10023", True),
        ("my order number is a 10023, thanks", True),
        ("it's 10023", True),
        ("订单号是A-10023", True),
        ("A-10023 has not arrived", False),
        ("where is my order", False),
        ("ok", False),
        ("A-10023 为什么还没到", False),
    ],
)
def test_a_bare_value_is_told_from_a_request(text: str, only: bool) -> None:
    """Only a value and its fillers: no new request."""
    assert is_slot_only(text, [ORDER]) is only


def test_sentences_keep_their_order_and_their_size() -> None:
    """Sentences, lines and clauses are cut in both languages; long and many pieces are bounded."""
    assert [s.text for s in split("Hi! Where is it? 我想退货。谢谢\nBye")] == [
        "Hi!", "Where is it?", "我想退货。", "谢谢", "Bye",
    ]  # fmt: skip
    assert split("I was charged twice, and where is my parcel?")[0].clauses == (
        "I was charged twice", "where is my parcel?",
    )  # fmt: skip
    assert split("x" * 9000) and all(len(s.text) <= MAX_CHARS for s in split("x" * 9000))
    assert len(split("One more thing. " * 200)) == MAX_SENTENCES
    assert split(" \n…!? ") == []
