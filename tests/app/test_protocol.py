"""The frames of chat.v1: what a client may say, and what happens when it says something else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol import (
    CLIENT_FRAMES,
    MAX_FRAME_BYTES,
    BadFrame,
    ErrCode,
    Hello,
    Party,
    Pong,
    Send,
    Welcome,
    encode,
    json_schema,
    parse_client_frame,
)

SEND = {"t": "send", "id": 7, "cid": "0190-abcdef", "text": "hello"}


def parse(**frame: Any) -> Any:
    return parse_client_frame(json.dumps(frame))


def refusal(text: str) -> BadFrame:
    with pytest.raises(BadFrame) as caught:
        parse_client_frame(text)
    return caught.value


def test_a_send_frame_is_read() -> None:
    """A well-formed frame comes back as its model."""
    assert parse(**SEND) == Send(t="send", id=7, cid="0190-abcdef", text="hello")


def test_unknown_fields_are_ignored() -> None:
    """A newer client may send fields that this server does not know."""
    assert isinstance(parse(**SEND, mood="good"), Send)


@pytest.mark.parametrize("field", ["by", "sender", "owner", "role", "history", "seq", "messages"])
def test_forged_fields_are_not_in_the_model(field: str) -> None:
    """What a client claims about sender, owner, role or history cannot be read by mistake."""
    frame = parse(**SEND, **{field: "ai:billing"})
    assert not hasattr(frame, field)


def test_unknown_kind_names_the_allowed_ones() -> None:
    """An unknown `t` is an error that names the kinds there are, with the request's number."""
    bad = refusal('{"t":"teleport","id":9}')
    assert (bad.code, bad.re, bad.field) == (ErrCode.UNKNOWN_TYPE, 9, "t")
    assert "send" in bad.message


@pytest.mark.parametrize("text", ["", "{", "hello", '{"t":"send"', '"\\ud800"', '{"t":"send","text":"\\ud800"}', "NaN"])
def test_bad_json_is_an_error(text: str) -> None:
    """What is not JSON, or not Unicode, is refused as such."""
    assert refusal(text).code is ErrCode.BAD_JSON


@pytest.mark.parametrize("text", ["[]", "1", "null", '"send"', "[" * 5000])
def test_json_that_is_no_object_is_an_error(text: str) -> None:
    """A frame is an object; deep nesting does not break the parser."""
    assert refusal(text).code is ErrCode.BAD_JSON


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": "7"}, "id"),
        ({"id": -1}, "id"),
        ({"id": True}, "id"),
        ({"cid": "short"}, "cid"),
        ({"cid": "has space in it"}, "cid"),
        ({"cid": "x" * 65}, "cid"),
        ({"text": ""}, "text"),
        ({"text": " \n\t"}, "text"),
        ({"text": 5}, "text"),
        ({"ack": 2**60}, "ack"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], field: str) -> None:
    """The error says which field is wrong, and types are not bent."""
    bad = refusal(json.dumps({**SEND, **change}))
    assert (bad.code, bad.field) == (ErrCode.BAD_FRAME, field)


def test_too_long_text_has_its_own_code() -> None:
    """The widget tells this to the customer in words, so it is told apart."""
    assert refusal(json.dumps({**SEND, "text": "x" * 8001})).code is ErrCode.TEXT_TOO_LONG


def test_a_frame_is_measured_in_bytes() -> None:
    """32 KiB are bytes of UTF-8, not characters."""
    padding = "字" * (MAX_FRAME_BYTES // 3 + 1)
    assert len(padding) < MAX_FRAME_BYTES
    assert refusal(json.dumps({"t": "ping", "x": padding}, ensure_ascii=False)).code is ErrCode.TOO_LARGE


def test_hello_needs_only_version_and_token() -> None:
    """A first visit has no position yet."""
    hello = parse(t="hello", v=1, token="abc")
    assert isinstance(hello, Hello)
    assert (hello.epoch, hello.seq, hello.conv) == (None, 0, None)


def test_pong_may_acknowledge() -> None:
    """The cumulative acknowledgement is optional."""
    assert parse(t="pong") == Pong(t="pong")
    assert parse(t="pong", ack=57) == Pong(t="pong", ack=57)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.dictionaries(st.text(), x)))
def test_no_json_breaks_the_parser(value: Any) -> None:
    """Whatever JSON a client sends, the answer is a frame or a BadFrame, never another error."""
    frames = [value, {"t": "send", "id": 1, "cid": value, "text": value}, {"t": "hello", "v": value, "token": value}]
    for frame in frames:
        try:
            parse_client_frame(json.dumps(frame))
        except BadFrame as bad:
            assert bad.message


def test_empty_fields_are_left_out_on_the_wire() -> None:
    """A person's id is not there at all, and null is not sent."""
    frame = Welcome(
        conn="k_1",
        conv="c_1",
        epoch="e_1-a",
        seq=0,
        recovered=True,
        replay=0,
        ping=25,
        owner=Party(kind="human", name="Ann"),
        status="open",
        model={"offline": True, "name": "offline"},  # type: ignore[arg-type]  # pydantic builds it
    )
    sent = json.loads(encode(frame))
    assert sent["owner"] == {"kind": "human", "name": "Ann"}
    assert sent["t"] == "welcome"


def test_every_frame_has_a_schema() -> None:
    """Another language can write a client from the published schema."""
    schema = json_schema()
    assert set(schema["client"]) == set(CLIENT_FRAMES)
    wanted = {"welcome", "snapshot", "ev", "live", "eph", "ack", "err", "ping", "pong", "bye"}
    assert set(schema["server"]) == wanted
