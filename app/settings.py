"""All settings of Frontdesk: read from the environment and from `.env`, checked once, explained when wrong.

`Settings(...)` reads the environment; `load_settings()` also reads `.env`, refuses unknown FRONTDESK_ variables and
turns every problem into one `SettingsInvalid` that names the variable, what came and what is allowed.
"""

from __future__ import annotations

import base64
import difflib
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.config import JsonDict
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from sessions.errors import FrontdeskError

PREFIX = "FRONTDESK_"
OWN_NAMES = {  # fields whose variable is a name that other programs know too
    "redis_url": "REDIS_URL",
    "openai_api_key": "OPENAI_API_KEY",
    "openai_base_url": "OPENAI_BASE_URL",
}
NOT_SETTINGS = ("FRONTDESK_TEST_", "FRONTDESK_BENCH_")  # switches of the test and bench programs, not of the server
MIN_SECRET_CHARS = 16  # shorter ones can be guessed; `python -c "import secrets; print(secrets.token_urlsafe(32))"`


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One thing wrong with one variable. `came` is None when showing it would show a secret or it was not set."""

    variable: str
    message: str
    came: str | None = None

    def __str__(self) -> str:
        came = "" if self.came is None else f" (got {self.came!r})"
        return f"{self.variable}: {self.message}{came}"


class SettingsInvalid(FrontdeskError):
    """The settings cannot be used; `problems` holds every one of them, not just the first."""

    def __init__(self, problems: Iterable[SettingProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def _setting(default: Any, description: str, *, allowed: str, unit: str = "", **constraints: Any) -> Any:
    """A settings field: `allowed` is the sentence a stranger reads when the value is wrong; `unit` may be empty."""
    extra: JsonDict = {"allowed": allowed, "unit": unit}
    return Field(default=default, description=description, json_schema_extra=extra, **constraints)


class Settings(BaseSettings):
    """Everything that can be set. Each field's variable is FRONTDESK_<NAME>, except the three in OWN_NAMES."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )

    host: str = _setting(
        "127.0.0.1", "Address the server listens on.", allowed="a host name or an address; 0.0.0.0 listens on all"
    )
    port: int = _setting(
        8000,
        "Port the server listens on.",
        allowed="a whole number from 0 to 65535; 0 picks a free one",
        ge=0,
        le=65535,
    )
    env: Literal["development", "production"] = _setting(
        "development",
        "production refuses to start without REDIS_URL, FRONTDESK_SECRET and FRONTDESK_API_KEY.",
        allowed="development or production",
    )
    agents: Path | None = _setting(
        None,
        "Folder with the agent files. Without it: ./agents when that holds a desk.yaml, else the demo shop.",
        allowed="a folder that holds a desk.yaml",
    )
    data_dir: Path = _setting(
        Path(".frontdesk"),
        "Folder for what Frontdesk keeps on this machine: the embedded store, the demo shop, generated keys.",
        allowed="a folder that can be written to",
    )
    redis_url: SecretStr | None = _setting(
        None,
        "The Redis or Valkey to use. Without it an embedded Valkey runs in the data folder.",
        allowed="a URL that starts with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://",
        validation_alias="REDIS_URL",
    )
    secret: SecretStr | None = _setting(
        None,
        "Signs the visitors' session tokens. Without it one is generated and kept in Redis.",
        allowed=f"a random text of at least {MIN_SECRET_CHARS} characters",
        min_length=MIN_SECRET_CHARS,
    )
    api_key: SecretStr | None = _setting(
        None,
        "Opens the desk and the REST API. Without it one is generated; `frontdesk key` prints it.",
        allowed=f"a random text of at least {MIN_SECRET_CHARS} characters",
        min_length=MIN_SECRET_CHARS,
    )
    site_key: str = _setting(
        "demo",
        "Public name of the website whose chat widget may open conversations here.",
        allowed="1 to 64 letters, digits, - or _",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
    )
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = _setting(
        (),
        "Websites that may embed the widget, besides this server's own pages.",
        allowed="addresses like https://shop.example, separated by commas; * allows every website",
    )
    model: str = _setting(
        "auto",
        "Which model answers. auto: offline unless OPENAI_API_KEY or OPENAI_BASE_URL is set.",
        allowed="auto, offline, openai, or a model name that your server knows",
        min_length=1,
    )
    openai_api: Literal["auto", "responses", "chat_completions"] = _setting(
        "auto",
        "Which of OpenAI's two APIs to speak. auto: chat_completions when OPENAI_BASE_URL is set, else responses.",
        allowed="auto, responses or chat_completions",
    )
    openai_api_key: SecretStr | None = _setting(
        None, "Key for OpenAI or for the server at OPENAI_BASE_URL.", allowed="a key", validation_alias="OPENAI_API_KEY"
    )
    openai_base_url: str | None = _setting(
        None,
        "Any OpenAI-compatible server (Ollama, vLLM, llama.cpp ...); works without a key.",
        allowed="a URL that starts with http:// or https://, usually ending in /v1",
        validation_alias="OPENAI_BASE_URL",
    )
    model_timeout_s: float = _setting(
        60.0,
        "Longest wait for one answer of the model.",
        allowed="a number above 0, at most 600",
        unit="s",
        gt=0,
        le=600,
    )
    model_retries: int = _setting(
        2,
        "How often a failed model call is tried again (429 after the time the server asks for, 5xx, network).",
        allowed="a whole number from 0 to 10",
        ge=0,
        le=10,
    )
    lease_s: float = _setting(
        20.0,
        "How long a worker may be silent before another one takes over its turn.",
        allowed="a number from 1 to 300",
        unit="s",
        ge=1,
        le=300,
    )
    runs_kept: int = _setting(
        50,
        "How many records of runs are kept with each conversation. 0: none are written.",
        allowed="a whole number from 0 to 1000",
        ge=0,
        le=1000,
    )
    stop_grace_s: float = _setting(
        8.0,
        "How long running turns may finish after the server was asked to stop.",
        allowed="a number from 0 to 300",
        unit="s",
        ge=0,
        le=300,
    )
    max_message_chars: int = _setting(
        8000,
        "Longest message that a customer may send.",
        allowed="a whole number from 100 to 8000",
        unit="characters",
        ge=100,
        le=8000,
    )
    webhook_url: SecretStr | None = _setting(
        None,
        "Where handoffs are reported, signed as Standard Webhooks say. Needs FRONTDESK_WEBHOOK_SECRET.",
        allowed="an address that starts with https:// (http:// outside production), without user and password",
    )
    webhook_secret: SecretStr | None = _setting(
        None,
        "Signs the webhook; the receiver has the same one.",
        allowed="whsec_ and at least 24 random bytes in base64, such as `echo whsec_$(openssl rand -base64 32)` prints",
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "How much the server logs.", allowed="debug, info, warning or error"
    )

    @field_validator("env", "openai_api", "log_level", mode="before")
    @classmethod
    def _lower_case(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value

    @field_validator("allowed_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _origins_are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            parts = urlsplit(origin)
            if origin != "*" and (parts.scheme not in ("http", "https") or not parts.netloc or parts.path):
                raise ValueError(f"{origin!r} is not an address like https://shop.example")
        return value

    @field_validator("openai_base_url")
    @classmethod
    def _base_url_is_http(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "http://unset")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("not an http URL")
        return value

    @field_validator("webhook_url")
    @classmethod
    def _webhook_is_http(cls, value: SecretStr | None) -> SecretStr | None:
        parts = urlsplit(value.get_secret_value() if value else "https://unset")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.fragment:
            raise ValueError("not such an address")
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _webhook_secret_is_strong(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            text = value.get_secret_value()
            key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
            if not text.startswith("whsec_") or not 24 <= len(key) <= 64:
                raise ValueError("not such a secret")
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis_url_has_known_scheme(cls, value: SecretStr | None) -> SecretStr | None:
        schemes = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
        if value is not None and urlsplit(value.get_secret_value()).scheme not in schemes:
            raise ValueError("unknown kind of URL")
        return value

    @field_validator("agents", "data_dir")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value is not None else None

    @model_validator(mode="after")
    def _production_is_complete(self) -> Settings:
        if self.env == "production":
            needed = {"redis_url": self.redis_url, "secret": self.secret, "api_key": self.api_key}
            missing = [variable_of(name) for name, value in needed.items() if value is None]
            if missing:
                raise ValueError(f"production needs {', '.join(missing)} to be set")
        return self

    @model_validator(mode="after")
    def _webhook_is_complete(self) -> Settings:
        if (self.webhook_url is None) is not (self.webhook_secret is None):
            raise ValueError("FRONTDESK_WEBHOOK_URL and FRONTDESK_WEBHOOK_SECRET need each other: set both or none")
        url = self.webhook_url.get_secret_value() if self.webhook_url else ""
        if self.production and url.startswith("http:"):
            raise ValueError("in production FRONTDESK_WEBHOOK_URL must start with https://")
        return self

    @property
    def production(self) -> bool:
        return self.env == "production"

    @property
    def redis_address(self) -> str | None:
        """REDIS_URL as `sessions.connect` wants it: it may hold a password, so keep it out of logs."""
        return self.redis_url.get_secret_value() if self.redis_url else None


def variable_of(field_name: str) -> str:
    """The environment variable that sets this field."""
    return OWN_NAMES.get(field_name, PREFIX + field_name.upper())


def load_settings(env_file: Path | None = Path(".env"), **overrides: Any) -> Settings:
    """Settings from `overrides`, then the environment, then `env_file`. SettingsInvalid lists all that is wrong."""
    from_file = _read_env_file(env_file)
    problems = [
        *_unknown_variables(os.environ, "the environment"),
        *_unknown_variables(from_file, str(env_file)),
    ]
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = Settings(_env_file=env_file, **given)  # type: ignore[call-arg]  # pydantic-settings' own parameter
    except ValidationError as error:
        raise SettingsInvalid([*problems, *_explain(error, {**from_file, **os.environ, **given})]) from None
    if problems:
        raise SettingsInvalid(problems)
    return settings


def _read_env_file(env_file: Path | None) -> dict[str, str]:
    if env_file is None or not env_file.is_file():
        return {}
    try:
        lines = list(parse_stream(io.StringIO(env_file.read_text("utf-8"))))
    except UnicodeDecodeError:
        raise SettingsInvalid([SettingProblem(str(env_file), "is not a text file in UTF-8")]) from None
    unread = [line.original.line for line in lines if line.error]
    if unread:  # python-dotenv would pass over it, and the setting on it would silently not count
        why = "this line cannot be read; write NAME=value, and quotes around a value that has spaces or quotes"
        raise SettingsInvalid([SettingProblem(f"{env_file}:{number}", why) for number in unread])
    return {key: value or "" for key, value in dotenv_values(env_file, interpolate=True).items()}


def _unknown_variables(variables: Mapping[str, str], where: str) -> list[SettingProblem]:
    known = [variable_of(name) for name in Settings.model_fields]
    found = []
    for name in variables:
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper in known or upper.startswith(NOT_SETTINGS):
            continue
        close = difflib.get_close_matches(upper, known, n=1, cutoff=0.7)
        hint = f"did you mean {close[0]}?" if close else "see docs/reference/settings.md or .env.example"
        found.append(SettingProblem(name, f"no such setting (in {where}); {hint}"))
    return found


def _explain(error: ValidationError, given: Mapping[str, Any]) -> list[SettingProblem]:
    """pydantic's errors in the words of the fields' own `allowed` sentences; secret values are not repeated."""
    problems: dict[str, SettingProblem] = {}
    for item in error.errors(include_url=False, include_context=True):
        if not item["loc"]:
            problems["env"] = SettingProblem(variable_of("env"), str(item["msg"]).removeprefix("Value error, "))
            continue
        name = _field_of(str(item["loc"][0]))
        extra = Settings.model_fields[name].json_schema_extra
        allowed = extra["allowed"] if isinstance(extra, dict) else ""
        problems[name] = SettingProblem(variable_of(name), f"must be {allowed}", _shown(name, given))
    return list(problems.values())


def _field_of(location: str) -> str:
    for name in Settings.model_fields:
        if location.upper() in (name.upper(), variable_of(name)):
            return name
    return location


def _shown(name: str, given: Mapping[str, Any]) -> str | None:
    if "Secret" in str(Settings.model_fields[name].annotation):
        return None
    for key, value in given.items():
        if key.upper() in (name.upper(), variable_of(name)):
            return str(value)[:100]
    return None


def agents_folder(settings: Settings) -> Path:
    """The folder with desk.yaml: FRONTDESK_AGENTS, else ./agents when it holds a desk.yaml, else the demo shop."""
    if settings.agents is not None:
        return settings.agents
    here = Path("agents")
    return here if (here / "desk.yaml").is_file() else starter_agents()


def starter_agents() -> Path:
    """The demo shop: inside the installed wheel, or the repository's own `agents/` in a checkout."""
    packaged = Path(__file__).parent / "starter_agents"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "agents"
