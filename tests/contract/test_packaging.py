"""What a stranger installs: the wheel, its imports, the layers, and the pins."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
BELOW = {"app": {"app", "handoffs", "sessions"}, "handoffs": {"handoffs", "sessions"}, "sessions": {"sessions"}}
FORBIDDEN = {
    "app": {"tests", "bench", "scripts"},
    "handoffs": {"app", "fastapi", "starlette", "uvicorn", "redis", "valkey", "websockets", "tests"},
    "sessions": {"app", "handoffs", "agents", "openai", "fastapi", "starlette", "uvicorn", "websockets", "tests"},
}
BUILD_S = 120


def run(command: list[str], cwd: Path, **env: str) -> str:
    """stdout of a command that must succeed."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the source so that the working tree stays clean."""
    source = tmp_path_factory.mktemp("source")
    for name in ("app", "handoffs", "sessions", "agents"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "."], cwd=source)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    """The files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The `bin` of a fresh environment that holds the wheel; its dependencies are those of this environment."""
    home = tmp_path_factory.mktemp("home")
    venv.create(home, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(home), "platbase": str(home)}))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)  # our own wheel
    (site / "zz_dependencies.pth").write_text(_dependencies(home))
    yield home / "bin"


def _dependencies(home: Path) -> str:
    """A .pth with this environment's packages, but without its editable Frontdesk."""
    site = Path(sysconfig.get_path("purelib"))
    links = home / "dependencies"
    links.mkdir()
    for entry in site.iterdir():
        if "frontdesk" not in entry.name and not entry.name.endswith(".pth"):
            (links / entry.name).symlink_to(entry)
    return f"{links}\n"


def test_the_wheel_holds_the_three_packages_and_their_data(names: list[str]) -> None:
    """Every Python file, Lua script, page and demo agent of the repository is in the wheel."""
    for package in ("app", "handoffs", "sessions"):
        expected = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / package).rglob("*")
            if path.is_file() and path.suffix in (".py", ".lua", ".typed", ".html", ".js", ".css", ".svg", ".json")
        }
        assert expected <= set(names), sorted(expected - set(names))


def test_the_demo_desk_travels_inside_app(names: list[str]) -> None:
    """agents/ becomes app/starter_agents/, whole."""
    expected = {
        "app/starter_agents/" + path.relative_to(ROOT / "agents").as_posix()
        for path in (ROOT / "agents").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "app/starter_agents/desk.yaml" in expected
    assert expected <= set(names), sorted(expected - set(names))


def test_the_wheel_never_writes_into_the_sdks_folder(names: list[str]) -> None:
    """A top-level `agents/` would overwrite the OpenAI Agents SDK; tests and benches stay at home."""
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"app", "handoffs", "sessions"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_installed_wheel_imports_the_sdk_and_itself(installed: Path, tmp_path: Path) -> None:
    """In a fresh environment `import agents` is the SDK, and our packages come from the wheel."""
    code = "import agents, app, handoffs, sessions; print(agents.Runner.__name__, app.__file__)"
    printed = run([str(installed / "python"), "-c", code], cwd=tmp_path)
    assert printed.startswith("Runner ") and str(installed.parent) in printed


def test_the_installed_command_checks_its_own_demo_desk(installed: Path, tmp_path: Path) -> None:
    """`frontdesk check` works from the wheel alone, in an empty folder."""
    printed = run([str(installed / "python"), "-m", "app.cli", "check", "--json"], cwd=tmp_path)
    assert '"ok": true' in printed and "starter_agents" in printed


def test_the_installed_command_copies_the_demo_desk(installed: Path, tmp_path: Path) -> None:
    """`frontdesk init` gives a desk that passes `frontdesk check`."""
    python = str(installed / "python")
    run([python, "-m", "app.cli", "init", "mine"], cwd=tmp_path)
    assert (tmp_path / "mine" / "triage" / "agent.md").is_file()
    assert '"ok": true' in run([python, "-m", "app.cli", "check", "mine", "--json"], cwd=tmp_path)


def test_the_folder_agents_is_no_package() -> None:
    """With an __init__.py it would hide the SDK from everything that starts in this folder."""
    assert not (ROOT / "agents" / "__init__.py").exists()


PROBE = "import agents; assert agents.Runner; print('sdk', agents.__file__)"


def test_python_m_and_python_c_in_the_repository_get_the_sdk(tmp_path: Path) -> None:
    """The working directory comes first on sys.path there, and the SDK still wins."""
    (tmp_path / "probe.py").write_text(PROBE)
    assert "sdk" in run([sys.executable, "-c", PROBE], cwd=ROOT)
    assert "sdk" in run([sys.executable, "-m", "probe"], cwd=ROOT, PYTHONPATH=str(tmp_path))


@pytest.mark.parametrize("command", [["-m", "pytest"], ["-c", "import sys, pytest; sys.exit(pytest.main())"]])
def test_pytest_in_the_repository_gets_the_sdk(command: list[str], tmp_path: Path) -> None:
    """`python -m pytest` and bare `pytest` both import the SDK under the name agents."""
    probe = tmp_path / "test_probe.py"
    probe.write_text(f"def test_probe():\n    {PROBE}\n")
    options = ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", str(probe)]
    environment = {"PYTEST_ADDOPTS": " ".join(options)}
    assert "1 passed" in run([sys.executable, *command], cwd=ROOT, **environment)


def test_uvicorn_in_the_repository_gets_the_sdk(tmp_path: Path) -> None:
    """uvicorn puts its working directory on sys.path and must not find our folder either."""
    (tmp_path / "probe_app.py").write_text(f"{PROBE}\nasync def app(scope, receive, send): ...\n")
    code = "import uvicorn; uvicorn.Config('probe_app:app').load()"
    assert "sdk" in run([sys.executable, "-c", code], cwd=ROOT, PYTHONPATH=str(tmp_path))


@pytest.mark.parametrize("package", ["app", "handoffs", "sessions"])
def test_imports_point_down(package: str) -> None:
    """app -> handoffs -> sessions, and no layer knows what belongs to another (redis, FastAPI, the SDK)."""
    wrong = []
    for path in (ROOT / package).rglob("*.py"):
        for line, name in imports(path):
            top = name.split(".")[0]
            if top in FORBIDDEN[package] or (top in BELOW and top not in BELOW[package]):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of every import that runs, those inside functions included; not those for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.lineno, node.module or ""


def test_every_package_is_listed() -> None:
    """setuptools takes the packages that pyproject.toml names: a new folder must be added there."""
    listed = set(project()["tool"]["setuptools"]["packages"])  # type: ignore[index]  # TOML
    found = {
        path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for package in ("app", "handoffs", "sessions")
        for path in (ROOT / package).rglob("*.py")
    }
    assert found <= listed, found - listed


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {normal(name): number for name, _, number in (line.partition("==") for line in lines)}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> list[Requirement]:
    table = project()
    listed = [*table["project"]["dependencies"], *table["build-system"]["requires"]]  # type: ignore[index]  # TOML
    for extra in table["project"]["optional-dependencies"].values():  # type: ignore[index]  # TOML
        listed += extra
    return [Requirement(text) for text in listed]


def test_constraints_are_exact_and_nothing_else() -> None:
    """Each line is name==version: no address, no range, no option."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._+!-]+", line) for line in lines)


def test_every_direct_dependency_is_pinned_and_installed_as_pinned() -> None:
    """What the tests ran against is what a stranger gets."""
    pinned = pins()
    for requirement in requirements():
        name = normal(requirement.name)
        assert name in pinned, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(pinned[name], prereleases=True), requirement
        if requirement.marker is None or requirement.marker.evaluate():
            assert version(requirement.name) == pinned[name], requirement.name


def test_everything_that_they_need_is_pinned_too() -> None:
    """constraints.txt is closed: an indirect dependency cannot change under a fixed commit."""
    from importlib.metadata import requires

    pinned, seen = pins(), set()
    waiting = [requirement for requirement in requirements() if not requirement.marker or requirement.marker.evaluate()]
    while waiting:
        requirement = waiting.pop()
        key = (normal(requirement.name), *sorted(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        assert key[0] in pinned, f"{requirement.name} is not in constraints.txt"
        for text in requires(requirement.name) or []:
            needed = Requirement(text)
            wanted = [{"extra": extra} for extra in requirement.extras or {""}]
            if needed.marker is None or any(needed.marker.evaluate(env) for env in wanted):
                waiting.append(needed)
