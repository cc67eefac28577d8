"""handoffs.knowledge: cutting Markdown at its headings, and finding the right passage in two languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.offline.encoder import SentenceEncoder
from handoffs.knowledge import MAX_PASSAGE_CHARS, Knowledge, Passage, load_passages, split, words

REFUNDS = """\
# Refunds

What we say about money.

## Refund times

Card refunds take 5 to 7 working days. Bank transfers take 3 days.

## 退款时间

银行卡退款需要5到7个工作日。

## Vouchers

A voucher cannot be paid out in money.

```
# not a heading
```
"""


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder()


def test_a_file_is_cut_at_its_headings_and_not_inside_code() -> None:
    """Each section is one passage that names its file and heading; a # line in a code block is text."""
    passages = split("billing/refunds.md", REFUNDS)
    assert [p.source for p in passages] == [
        "billing/refunds.md#Refunds",
        "billing/refunds.md#Refund times",
        "billing/refunds.md#退款时间",
        "billing/refunds.md#Vouchers",
    ]
    assert "# not a heading" in passages[-1].text


def test_a_long_section_is_cut_between_paragraphs() -> None:
    """No piece of a section with short paragraphs is longer than the limit, and no word is lost."""
    text = "\n\n".join(f"Paragraph {k} " + "word " * 40 for k in range(30))
    passages = split("a.md", f"# Title\n\n{text}")
    assert len(passages) > 3
    assert all(len(p.text) <= MAX_PASSAGE_CHARS for p in passages)
    assert " ".join(p.text for p in passages).split() == text.split()


def test_a_folder_gives_the_passages_of_all_its_files(tmp_path: Path) -> None:
    """Sources start with the agent's id; a folder that is not there gives nothing."""
    folder = tmp_path / "billing" / "knowledge"
    (folder / "more").mkdir(parents=True)
    (folder / "refunds.md").write_text("# A\ntext a", encoding="utf-8")
    (folder / "more" / "zh.md").write_text("no heading at all", encoding="utf-8")
    assert [p.source for p in load_passages(folder)] == ["billing/more/zh.md", "billing/refunds.md#A"]
    assert load_passages(tmp_path / "nobody" / "knowledge") == []


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("how long does a refund take?", "billing/refunds.md#Refund times"),
        ("can I cash in my vouchers", "billing/refunds.md#Vouchers"),
        ("退款要多久", "billing/refunds.md#退款时间"),
    ],
)
def test_words_alone_find_the_passage(query: str, source: str) -> None:
    """Without an encoder BM25 ranks, Chinese by pairs of characters."""
    assert Knowledge(split("billing/refunds.md", REFUNDS)).search(query)[0].source == source


def test_meaning_finds_what_shares_no_word(encoder: SentenceEncoder) -> None:
    """With the encoder a question in other words finds its passage, with a score that says how near it is."""
    knowledge = Knowledge(split("billing/refunds.md", REFUNDS), encoder)
    best = knowledge.search("when do I get my money back on my credit card")[0]
    assert best.passage.heading in ("Refund times", "退款时间")
    assert 0.3 < best.score <= 1.0


def test_nothing_matches_a_foreign_question(encoder: SentenceEncoder) -> None:
    """Words that are nowhere find nothing by BM25, and only low scores by meaning."""
    passages = split("billing/refunds.md", REFUNDS)
    assert Knowledge(passages).search("zebra crossing") == []
    assert all(hit.score < 0.3 for hit in Knowledge(passages, encoder).search("zebra crossing"))


@pytest.mark.parametrize("query", ["", "   ", "?!"])
def test_a_query_without_words_is_no_error(query: str) -> None:
    """Blank text and bare punctuation find nothing by words."""
    assert Knowledge(split("billing/refunds.md", REFUNDS)).search(query) == []


def test_passages_without_words_are_no_error() -> None:
    """A knowledge of punctuation only can be searched."""
    assert Knowledge([Passage("x", "", "...")]).search("hello") == []
    assert Knowledge([]).search("hello") == []


def test_words_are_folded() -> None:
    """Full-width letters, capitals and a plural s do not matter; Chinese is cut in pairs."""
    assert words("Ｒefunds CLASS") == ["refund", "class"]
    assert words("退款时间") == ["退款", "款时", "时间"]
