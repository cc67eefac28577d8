"""From what the scripts answer to the plain data of sessions/model.py. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessions.model import Approval, Conversation, Event, Grant, Item, Json, Owner, OwnerKind, Pending, Token, Value


def pairs(flat: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """A hash as a dict, whether Redis gave it flat or as a map."""
    if isinstance(flat, Mapping):
        return dict(flat)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def conversation(conversation_id: str, own: Mapping[str, str], waiting: int = 0) -> Conversation:
    """The owner record as it is stored in the hash `own`."""
    return Conversation(
        conversation_id=conversation_id,
        owner=Owner(OwnerKind(own["kind"]), own["owner"]),
        epoch=int(own["epoch"]),
        seq=int(own["seq"]),
        status=own["st"],
        worker=own.get("wid", ""),
        lease_until=int(own.get("lease", "0")),
        attempts=int(own.get("att", "0")),
        draft=own.get("draft", ""),
        waiting=waiting,
        born=int(own.get("born", "0")),
        meta=json.loads(own["meta"]) if own.get("meta") else {},
        seen={key[5:]: int(value) for key, value in own.items() if key.startswith("seen:")},
        offer=own.get("offer", ""),
        tenure=int(own.get("tenure") or 0),
        watched_until=int(own.get("watched", "0")),
        asks=tuple(entry.partition("=")[0] for entry in own.get("asks", "").split()),
        woken=tuple((own.get("woken", "") + own.get("wake", "")).split()),
    )


def registered(own: Mapping[str, str]) -> frozenset[str]:
    """Names of the keys that a conversation has beside the common ones, as lua/lib.lua's `incomplete` knows them."""
    histories = (f"h:{name[5:]}" for name in own if name.startswith("seen:"))
    return frozenset((*histories, *(name[4:] for name in own if name.startswith("key:"))))


def pending(rows: Iterable[str]) -> tuple[Pending, ...]:
    """Inbox entries, oldest first."""
    out = []
    for row in rows:
        seq, message_id, data = row.split("|", 2)
        out.append(Pending(int(seq), message_id, json.loads(data)))
    return tuple(out)


def values(flat: Sequence[str] | Mapping[str, str]) -> dict[str, Value]:
    """Shared values with their revisions."""
    fields = pairs(flat)
    return {
        key[4:]: Value(json.loads(text), int(fields.get(f"rev:{key[4:]}", "0")))
        for key, text in fields.items()
        if key.startswith("val:")
    }


def items(rows: Iterable[str]) -> tuple[Item, ...]:
    """History items, oldest first."""
    return tuple(json.loads(f"[{','.join(rows)}]"))  # one call for all of them takes a third of the time


def event(entry_id: str, fields: Mapping[str, str]) -> Event:
    """One entry of the log stream."""
    epoch, _, seq = entry_id.partition("-")
    return Event(
        seq=int(seq),
        epoch=int(epoch),
        type=fields["t"],
        at=int(fields["at"]),
        by=fields["by"],
        data=json.loads(fields["d"]),
        owner_from=fields["f"],
        owner_to=fields["o"],
        run=fields.get("r", ""),
    )


def published_event(row: Sequence[str]) -> Event:
    """An event as lua/lib.lua publishes it: E, seq, epoch, type, at, by, data, from, to, run."""
    return Event(int(row[1]), int(row[2]), row[3], int(row[4]), row[5], json.loads(row[6]), *row[7:])


def events(entries: Iterable[Sequence[Any]]) -> tuple[Event, ...]:
    """Entries of XRANGE, in the order given."""
    return tuple(event(entry[0], pairs(entry[1])) for entry in entries)


def grant(conversation_id: str, fence: str, reply: Sequence[Any], history: Sequence[str] | None = None) -> Grant:
    """A worker's grant: [own, inbox, values, history or '', newest log entries first, tool journal]."""
    done, unfinished = journal(reply[5])
    waiting = pending(reply[1])
    record = conversation(conversation_id, pairs(reply[0]), waiting=len(waiting))
    return Grant(
        conversation=record,
        token=Token(record.epoch, fence),
        pending=waiting,
        values=values(reply[2]),
        history=items(reply[3] if history is None else history),
        log=lambda: (event(entry[0], pairs(entry[1])) for entry in reply[4]),
        log_from=int(reply[4][-1][0].partition("-")[2]) if reply[4] else 0,
        journal=done,
        unfinished=unfinished,
    )


def journal(flat: Sequence[str] | Mapping[str, str]) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Finished tool calls with their results, and the keys of unfinished ones. Entries: `D<json>` and `B<epoch>`."""
    if not flat:
        return {}, ()
    entries = pairs(flat)
    done = {key: json.loads(entry[1:]) for key, entry in entries.items() if entry.startswith("D")}
    return done, tuple(key for key in entries if key not in done)


def approval(flat: Sequence[str] | Mapping[str, str], tenure: str, *, duplicate: bool = False) -> Approval:
    """An approval's hash, seen from a conversation whose owner's tenure is `tenure`."""
    fields = pairs(flat)
    return Approval(
        approval_id=fields["id"],
        state=fields["state"],
        agent_id=fields["agent"],
        epoch=int(fields["epoch"] or 0),
        call=json.loads(fields["call"]),
        arguments_hash=fields["hash"],
        deadline=int(fields["deadline"]),
        default=fields["default"],
        verdict=fields["verdict"],
        by=fields["by"],
        note=fields["note"],
        at=int(fields["at"]),
        use=fields["use"],
        void=fields["epoch"] != tenure,
        duplicate=duplicate,
    )
