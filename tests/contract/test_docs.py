"""README and docs: every example is run or loaded, every table compared with the code, every link followed."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from ruamel.yaml import YAML

from app import api_models, approvals_api, protocol, values_api
from app.settings import Settings, variable_of
from handoffs.lint import check
from handoffs.loader import parse_roster
from handoffs.roster import AgentSettings, DeskSpec
from scripts import docs_reference
from tests.contract.pages import (
    PAGES,
    ROOT,
    Block,
    Desk,
    all_blocks,
    anchors,
    blocks,
    commands,
    missing_programs,
    page_text,
    prose,
    rows,
    served_log,
    shows,
    start_desk,
    write_files,
)

FREE_TEXT = frozenset({"text", "mermaid", "nginx"})  # pictures, and files of other programs
OTHERS = frozenset({"person", "root"})  # consoles that need a person with a secret, or root
CONSOLES = [page for page in PAGES if any(b.language == "console" and b.note not in OTHERS for b in blocks(page))]
DESKS = [page for page in PAGES if any(b.note == "agents/desk.yaml" for b in blocks(page))]
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home|tmp|Users|mnt)/")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The demo desk, running for all pages."""
    running = start_desk(tmp_path_factory.mktemp("desk"))
    yield running
    running.stop()


def at(block: Block) -> str:
    return str(block)


# --- examples -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_every_example_is_of_a_kind_that_is_checked(page: str) -> None:
    """A new kind of example needs a check here first."""
    for block in blocks(page):
        kind = (block.language, block.note.partition("/")[0].partition("=")[0])
        known = block.language in FREE_TEXT or kind in {
            ("yaml", "agents"),
            ("yaml", "part"),
            ("markdown", "agents"),
            ("python", "agents"),
            ("python", "shop"),
            ("python", "run"),
            ("console", ""),
            ("console", "exit"),
            ("console", "person"),
            ("console", "root"),
            ("bash", "env"),
            ("sh", ""),  # commands of other programs; their make targets are looked up below
            ("ini", "systemd"),
            ("json", block.note),
        }
        assert known, f"{block}: ```{block.language} {block.note}"


@pytest.mark.parametrize("page", DESKS)
def test_the_desk_of_a_page_is_accepted(page: str, tmp_path: Path) -> None:
    """The agent files of one page are one desk without errors, tools included."""
    assert write_files(page, tmp_path)
    found = check(tmp_path / "agents")
    assert found.errors == () and found.tools is not None and found.tools.problems == []


@pytest.mark.parametrize("block", [b for b in all_blocks("yaml") if b.note.startswith("part=")], ids=at)
def test_a_part_of_a_file_is_accepted(block: Block) -> None:
    """Fields that are shown alone fit into the smallest file of their kind."""
    desk, agent = "name: A desk\nstart: one\n", "intended_use: Anything.\n"
    if block.note == "part=desk":
        desk += block.text
    else:
        agent += block.text
    parse_roster({"desk.yaml": desk.encode(), "one/agent.md": f"---\n{agent}---\nHelp.\n".encode()}, Path("agents"))


@pytest.mark.parametrize("block", [b for b in all_blocks("python") if b.note == "run"], ids=at)
def test_a_program_prints_what_the_page_says(block: Block, tmp_path: Path) -> None:
    """It runs in the folder that the page's files make, and the next block is its output."""
    write_files(block.page, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", block.text], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    after = blocks(block.page)
    output = after[after.index(block) + 1]
    assert done.returncode == 0, done.stderr
    assert (output.language, output.note, output.text) == ("text", "output", done.stdout)


@pytest.mark.parametrize("page", CONSOLES)
@pytest.mark.timeout(400)
def test_commands_print_what_the_page_says(page: str, desk: Desk, tmp_path: Path) -> None:
    """All commands of a page, in their order, in the folder that the page's files make, against the running desk."""
    write_files(page, tmp_path)
    for block in blocks(page):
        if block.language != "console" or block.note in OTHERS or missing_programs(block):
            continue
        done = desk.run(block, tmp_path)
        expected = commands(block)
        assert len(done) == len(expected), f"{block}: the shell ended early: {done}"
        for place, ((command, lines), (output, code)) in enumerate(zip(expected, done, strict=True)):
            last = place == len(expected) - 1
            wanted = int(block.note.removeprefix("exit=")) if last and block.note else 0
            assert code == wanted, f"{block}: $ {command}\nended with {code}:\n{output}"
            assert shows(lines, output), f"{block}: $ {command}\nprinted:\n{output}\nand the page says:\n" + "\n".join(
                lines
            )


@pytest.mark.parametrize("block", all_blocks("json"), ids=at)
def test_json_is_what_it_claims_to_be(block: Block) -> None:
    """A block that names a body or a frame is accepted by its model, with no field that the model does not have."""
    data = json.loads(block.text)
    if not block.note:
        return
    homes = [home for home in (api_models, approvals_api, values_api, protocol) if hasattr(home, block.note)]
    model: type[BaseModel] = getattr(homes[0], block.note)
    model.model_validate_json(block.text)
    assert set(data) <= set(model.model_fields)


def test_variables_of_the_environment_exist() -> None:
    """Every setting that is named anywhere, in text or examples, is a setting."""
    known = {variable_of(name) for name in Settings.model_fields}
    for page in PAGES:
        named = set(re.findall(r"\b(?:FRONTDESK_[A-Z_]*[A-Z]|OPENAI_[A-Z_]+|REDIS_URL)\b", page_text(page)))
        assert {name for name in named if not name.startswith("FRONTDESK_TEST_")} <= known, page


def test_the_file_of_settings_for_production_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that how-to/deploy.md shows are complete and valid."""
    for block in all_blocks("bash"):
        for line in block.text.splitlines():
            name, _, value = line.partition("=")
            monkeypatch.setenv(name, value)
        assert Settings().production


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("block", all_blocks("ini"), ids=at)
def test_systemd_accepts_the_unit(block: Block, tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, once the program of the unit is one that exists here."""
    unit = tmp_path / "frontdesk.service"
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", block.text))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- what is named ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """A relative link names a file that is there, and a heading in it."""
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(page)):
        file, _, anchor = target.partition("#")
        path = (ROOT / page).parent / file if file else ROOT / page
        assert path.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(path), f"{page}: {target}"


@pytest.mark.parametrize("page", PAGES)
def test_no_page_names_a_machine(page: str) -> None:
    """No path of the computer that a page was written on."""
    assert MACHINE_PATHS.findall(page_text(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options_exist(page: str) -> None:
    """Also where a command is only mentioned, or needs a person or root to run."""
    known = docs_reference.commands()
    shown = [line for b in blocks(page) if b.language == "console" for line, _ in commands(b)]
    for text in [*shown, *re.findall(r"`([^`\n]+)`", prose(page))]:
        for name, rest in re.findall(r"(?<![\w./-])frontdesk ([a-z]+)([^`|)]*)", text):
            assert name in known, f"{page}: {text}"
            options = {option for p in known[name].params for option in (*p.opts, *p.secondary_opts)} | {"--help"}
            assert set(re.findall(r"(?<=\s)--[a-z-]+", rest)) <= options, f"{page}: {text}"


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page: str) -> None:
    """`make x`, in text or on a line of a shell, is a target of the Makefile."""
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    assert set(re.findall(r"(?m)(?:`|^)make ([a-z-]+)", page_text(page))) <= targets


def test_the_readme_is_short() -> None:
    """A stranger reads it in five minutes."""
    assert len(page_text("README.md").splitlines()) < 200


def test_pictures_are_small() -> None:
    """A clone stays quick."""
    assert all(picture.stat().st_size < 200_000 for picture in (ROOT / "docs" / "images").iterdir())


def test_every_dependency_has_its_reason() -> None:
    """The README's table has exactly the packages that are installed with Frontdesk."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    table = page_text("README.md").partition("| package | why |")[2].partition("\n\n")[0]
    named = [name for line in table.splitlines()[2:] for name in line.split("|")[1].replace(" ", "").split(",")]
    assert sorted(named) == sorted(re.split(r"[<>=;~! ]", requirement)[0] for requirement in needed)


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_generated_parts_are_up_to_date(page: str) -> None:
    """Commands, endpoints, bodies and frames are as the code has them now."""
    if page.startswith("docs/"):
        assert docs_reference.generated(page_text(page)) == page_text(page), "run `python -m scripts.docs_reference`"


def models_in_tables() -> Iterator[tuple[str, list[list[str]]]]:
    for page in PAGES:
        yield from rows(page, "fields").items()


@pytest.mark.parametrize(
    ("name", "table"), list(models_in_tables()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_table_of_fields_is_the_model(name: str, table: list[list[str]]) -> None:
    """Name, type and default of every field, in the model's own words; only the last column is free."""
    model = named(name)
    wanted = [[f"`{field}`", type_words(info), default_words(info)] for field, info in in_order(model, table)]
    assert [row[:3] for row in table] == wanted


def test_the_reference_shows_every_field_in_use() -> None:
    """The whole files in reference/agent-files.md use each field that there is."""
    files = {block.note: block.text for block in blocks("docs/reference/agent-files.md")}
    yaml = YAML(typ="safe", pure=True)
    assert set(yaml.load(files["agents/desk.yaml"])) == set(DeskSpec.model_fields)
    assert set(yaml.load(files["agents/billing/agent.md"].split("---")[1])) == set(AgentSettings.model_fields)


@pytest.mark.parametrize("name", ["app.protocol:ErrCode", "app.protocol:CloseCode"])
def test_a_table_of_codes_is_complete(name: str) -> None:
    """Every code is explained, and none that does not exist."""
    table = rows("docs/reference/protocol.md", "members")[name]
    members: type[Enum] = named(name)
    assert [row[0] for row in table] == [f"`{member.value}`" for member in members]


def test_events_are_those_that_the_code_writes() -> None:
    """Every event type in the source is in the table, and the other way round."""
    source = "".join(path.read_text() for folder in ("handoffs", "sessions") for path in (ROOT / folder).glob("*.py"))
    by_scripts = {"owner.changed", "approval.asked", "approval.decided", "approval.used"}
    written = set(re.findall(r"NewEvent\(\s*\"([a-z._]+)\"", source)) | by_scripts
    assert {row[0].strip("`") for row in event_rows()} == written


def test_events_hold_what_the_table_says(desk: Desk) -> None:
    """No event of a real conversation has a key in its data that the table does not name."""
    key = (desk.folder / "data" / "desk.key").read_text().strip()
    block = Block("README.md", 0, "console", "", '$ frontdesk chat --once "why was I charged twice for A-10023?"\n')
    ((output, code),) = desk.run(block, desk.folder)
    assert code == 0, output
    named_keys: dict[str, set[str]] = {}
    for type_, by, data, _ in event_rows():
        keys = [*re.findall(r"`(\w+)`", re.sub(r"`decided_by` \([^)]*\)", "`decided_by`", data))]
        same = "the same" in data
        named_keys.setdefault(type_.strip("`"), set()).update(keys, named_keys["handoff.requested"] if same else ())
        assert by
    events = served_log(desk, key)
    assert {event["type"] for event in events} >= {"msg.created", "owner.changed", "handoff.completed", "tool.called"}
    for event in events:
        assert set(typing.cast("Mapping[str, Any]", event["data"])) <= named_keys[str(event["type"])], event


def event_rows() -> list[list[str]]:
    return rows("docs/reference/events.md", "events")[""]


def named(name: str) -> Any:
    module, _, member = name.partition(":")
    return getattr(importlib.import_module(module), member)


def in_order(model: type[BaseModel], table: list[list[str]]) -> list[tuple[str, FieldInfo]]:
    """The model's fields in the table's order, those that it does not have at the end."""
    order = [row[0].strip("`") for row in table]
    return sorted(model.model_fields.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))


WORDS: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    "_text": "text, or one per language",
    "_id": "id",
    "_target": "target",
    "_then": "target, or settings",
    "_condition": "condition",
    "_duration": "time",
}


def type_words(info: FieldInfo) -> str:
    """The type of a field as the tables write it, with its limits."""
    return ", ".join([kind_words(info.annotation, info.metadata), *limits(info.metadata)])


def kind_words(annotation: Any, metadata: typing.Iterable[Any] = ()) -> str:
    for extra in metadata:
        if (func := getattr(extra, "func", None)) is not None and func.__name__ in WORDS:
            return WORDS[func.__name__]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return kind_words(arguments[0], arguments[1:])
    if origin in (typing.Union, types.UnionType):
        kept = [kind_words(argument) for argument in arguments if argument is not type(None)]
        return ", ".join(kept[:-1]) + (" or " if kept[1:] else "") + kept[-1]
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {kind_words(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"map of {kind_words(arguments[0])} to {kind_words(arguments[1])}"
    return "settings" if issubclass(annotation, BaseModel) else WORDS[annotation]


def limits(metadata: typing.Iterable[Any]) -> list[str]:
    held = {name: getattr(extra, name) for extra in metadata for name in ("ge", "gt", "le") if hasattr(extra, name)}
    if "ge" in held and "le" in held:
        return [f"{held['ge']} to {held['le']}"]
    return [f"{words} {held[name]}" for name, words in (("gt", "above"), ("le", "at most")) if name in held]


def default_words(info: FieldInfo) -> str:
    """The default of a field as the tables write it."""
    if info.is_required():
        return "required"
    if info.default_factory is not None:
        return "built in" if info.get_default(call_default_factory=True, validated_data={}) else "`{}`"
    default = info.default
    assert default is not PydanticUndefined
    if default is None or default == "":
        return "none" if default is None else "empty"
    if isinstance(default, BaseModel):
        return "below"
    if isinstance(default, str) and " " in default:
        return "built in"
    if isinstance(default, tuple):
        return f"`[{', '.join(default)}]`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
