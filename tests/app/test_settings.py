"""Settings: read from environment and .env, refused in words that a stranger understands, never showing a secret."""

from __future__ import annotations

import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.keys import desk_key, desk_key_file
from app.settings import (
    OWN_NAMES,
    Settings,
    SettingsInvalid,
    agents_folder,
    load_settings,
    starter_agents,
    variable_of,
)
from scripts import settings_reference

ROOT = Path(__file__).parents[2]
LONG = "0123456789abcdef-long-enough"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No setting comes from the machine that runs the tests, and no .env either."""
    for name in Settings.model_fields:
        monkeypatch.delenv(variable_of(name), raising=False)
    monkeypatch.chdir(tmp_path)
    yield


def problems_of(**overrides: Any) -> dict[str, str]:
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(**overrides)
    return {problem.variable: str(problem) for problem in caught.value.problems}


def test_nothing_needs_to_be_set() -> None:
    """A fresh clone starts without any configuration, on this machine only."""
    settings = load_settings()
    assert (settings.host, settings.port, settings.env) == ("127.0.0.1", 8000, "development")
    assert settings.redis_url is None and settings.model == "auto" and settings.allowed_origins == ()


def test_the_environment_wins_over_the_env_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """.env is for defaults of a folder; what is set for this process wins, and an option wins over both."""
    (tmp_path / ".env").write_text("FRONTDESK_PORT=8100\nFRONTDESK_SITE_KEY=shop\n")
    monkeypatch.setenv("FRONTDESK_PORT", "8200")
    assert (load_settings().port, load_settings().site_key) == (8200, "shop")
    assert load_settings(port=8300).port == 8300


@pytest.mark.parametrize(("name", "variable"), OWN_NAMES.items())
def test_well_known_variables_keep_their_names(monkeypatch: pytest.MonkeyPatch, name: str, variable: str) -> None:
    """REDIS_URL and OpenAI's variables are read under the names that other programs use."""
    value = "redis://localhost/0" if name == "redis_url" else "https://models.example/v1"
    monkeypatch.setenv(variable, value)
    read = getattr(load_settings(), name)
    assert value == (read if isinstance(read, str) else read.get_secret_value())


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """`REDIS_URL=` in a compose file means no Redis, not a broken address."""
    monkeypatch.setenv("REDIS_URL", "")
    monkeypatch.setenv("FRONTDESK_PORT", "")
    assert load_settings().redis_url is None and load_settings().port == 8000


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("FRONTDESK_PORT", "abc", "a whole number from 0 to 65535"),
        ("FRONTDESK_PORT", "70000", "a whole number from 0 to 65535"),
        ("FRONTDESK_ENV", "prod", "development or production"),
        ("FRONTDESK_LOG_LEVEL", "loud", "debug, info, warning or error"),
        ("FRONTDESK_LEASE_S", "0", "a number from 1 to 300"),
        ("FRONTDESK_ALLOWED_ORIGINS", "shop.example", "addresses like https://shop.example"),
        ("FRONTDESK_SITE_KEY", "my shop", "letters, digits"),
        ("FRONTDESK_OPENAI_API", "completions", "responses or chat_completions"),
        ("OPENAI_BASE_URL", "localhost:11434", "http:// or https://"),
    ],
)
def test_a_bad_value_names_variable_value_and_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, allowed: str
) -> None:
    """The message is enough to repair the setting without reading code."""
    monkeypatch.setenv(variable, value)
    problems = problems_of()
    assert list(problems) == [variable]
    assert allowed in problems[variable] and repr(value) in problems[variable]


def test_every_problem_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three mistakes are three lines, not three starts."""
    monkeypatch.setenv("FRONTDESK_PORT", "x")
    monkeypatch.setenv("FRONTDESK_ENV", "y")
    monkeypatch.setenv("FRONTDESK_HOTS", "z")
    assert set(problems_of()) == {"FRONTDESK_PORT", "FRONTDESK_ENV", "FRONTDESK_HOTS"}


def test_an_unknown_variable_is_refused_with_a_suggestion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A typing mistake must not leave a setting at its default, wherever it is made."""
    monkeypatch.setenv("FRONTDESK_MODLE", "offline")
    (tmp_path / ".env").write_text("FRONTDESK_DATADIR=/x\n")
    problems = problems_of()
    assert "did you mean FRONTDESK_MODEL?" in problems["FRONTDESK_MODLE"]
    assert (
        "did you mean FRONTDESK_DATA_DIR?" in problems["FRONTDESK_DATADIR"] and ".env" in problems["FRONTDESK_DATADIR"]
    )


def test_switches_of_tests_and_other_programs_are_no_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """FRONTDESK_TEST_... and what is not ours is left alone."""
    monkeypatch.setenv("FRONTDESK_TEST_TIMEOUT_SCALE", "2")
    monkeypatch.setenv("OPENAI_ORG_ID", "x")
    load_settings()


@pytest.mark.parametrize("variable", ["FRONTDESK_SECRET", "FRONTDESK_API_KEY", "REDIS_URL"])
def test_a_bad_secret_is_named_but_not_shown(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Error messages end in logs and tickets: they hold no secret, not even a wrong one."""
    monkeypatch.setenv(variable, "hunter2")
    assert "hunter2" not in problems_of()[variable]


def test_secrets_are_not_in_the_representation() -> None:
    """Logging the settings is harmless."""
    settings = load_settings(secret=LONG, api_key=LONG, redis_url="redis://:hunter2@h/0", openai_api_key="hunter2")
    for shown in (repr(settings), str(settings), settings.model_dump_json()):
        assert LONG not in shown and "hunter2" not in shown


def test_production_names_everything_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Production never runs on generated secrets or a store on one machine."""
    monkeypatch.setenv("FRONTDESK_ENV", "production")
    monkeypatch.setenv("FRONTDESK_API_KEY", LONG)
    (message,) = problems_of().values()
    assert "REDIS_URL" in message and "FRONTDESK_SECRET" in message and "FRONTDESK_API_KEY" not in message


def test_production_starts_when_complete() -> None:
    """The three variables are all that production asks for."""
    settings = load_settings(env="production", redis_url="redis://r/0", secret=LONG, api_key=LONG)
    assert settings.production


def test_an_env_file_that_is_no_text_is_an_error_in_words(tmp_path: Path) -> None:
    """A binary .env does not end in a UnicodeDecodeError."""
    (tmp_path / ".env").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in problems_of()[".env"]


def test_a_line_of_the_env_file_that_cannot_be_read_is_an_error_with_its_number(tmp_path: Path) -> None:
    """A setting on a broken line does not silently count for nothing, and the line itself is not repeated."""
    (tmp_path / ".env").write_text("FRONTDESK_PORT=8100\nFRONTDESK_API_KEY 'pw-secret'\n")
    problems = problems_of()
    assert "NAME=value" in problems[".env:2"]
    assert "pw-secret" not in str(problems)


def test_origins_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several websites in one variable, with or without spaces and a closing slash."""
    monkeypatch.setenv("FRONTDESK_ALLOWED_ORIGINS", "https://a.example, https://b.example/")
    assert load_settings().allowed_origins == ("https://a.example", "https://b.example")


def test_agents_come_from_the_setting_then_from_here_then_from_the_demo(tmp_path: Path) -> None:
    """Without a word about it, the demo desk runs; a folder `agents` with a desk.yaml in it is taken first."""
    assert agents_folder(Settings()) == starter_agents()
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "desk.yaml").touch()
    assert agents_folder(Settings()) == Path("agents")
    assert agents_folder(Settings(agents=tmp_path / "x")) == tmp_path / "x"


def test_the_generated_key_is_kept_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    """The desk's key survives a restart and is no secret that other users of the machine share."""
    settings = Settings(data_dir=tmp_path / "data")
    key = desk_key(settings)
    assert desk_key(settings) == key and len(key) > 40
    assert stat.S_IMODE(desk_key_file(settings).stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["desk.key"]


def test_processes_that_start_together_agree_on_the_key(tmp_path: Path) -> None:
    """Two servers on one data folder must accept the same key."""
    settings = Settings(data_dir=tmp_path / "data")
    start = threading.Barrier(8)
    keys: set[str] = set()

    def ask() -> None:
        start.wait()
        keys.add(desk_key(settings))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 1


def test_a_key_that_was_set_is_the_key(tmp_path: Path) -> None:
    """FRONTDESK_API_KEY is used as it is, and nothing is written."""
    assert desk_key(load_settings(api_key=LONG, data_dir=tmp_path / "data")) == LONG
    assert not (tmp_path / "data").exists()


def test_every_field_says_what_it_is_and_what_is_allowed() -> None:
    """Description and allowed values are what errors, .env.example and the reference are made of."""
    for name, field in Settings.model_fields.items():
        extra: Any = field.json_schema_extra
        assert field.description and extra["allowed"], name
        assert not name.endswith("_s") or extra["unit"] == "s", name


def test_the_reference_and_the_example_are_up_to_date() -> None:
    """docs/reference/settings.md and .env.example are what `make docs` writes."""
    assert settings_reference.REFERENCE.read_text(encoding="utf-8") == settings_reference.reference(), "run `make docs`"
    assert settings_reference.EXAMPLE.read_text(encoding="utf-8") == settings_reference.example(), "run `make docs`"


def test_the_example_with_every_line_turned_on_is_valid(tmp_path: Path) -> None:
    """Removing the # of a line never makes a file that Frontdesk refuses."""
    text = re.sub(r"^#(?=[A-Z_]+=)", "", settings_reference.example(), flags=re.MULTILINE)
    (tmp_path / ".env").write_text(text)
    assert load_settings() == Settings()


def test_every_setting_is_used() -> None:
    """No variable is documented that changes nothing."""
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py") if path.name != "settings.py"
    )
    own = (ROOT / "app" / "settings.py").read_text(encoding="utf-8")
    read_here = {"env": "production", "redis_url": "redis_address", "agents": "agents_folder"}
    for name in Settings.model_fields:
        asked = read_here.get(name, f"settings.{name}")
        assert asked in sources or (name in read_here and asked in own), name
