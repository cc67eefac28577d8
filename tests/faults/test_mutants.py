"""The test of the tests: each rule of the Lua is broken once, and the state machine must notice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import RedisError, ResponseError

from sessions.connect import Backend
from sessions.errors import StoreRefused, StoreUnavailable
from sessions.scripts import Scripts
from sessions.store import Store
from tests.faults.machine import Bench, machine_for, open_bench
from tests.faults.mutants import MUTANTS, SCENARIOS, Mutant, Scenario

EXAMPLES = 150  # sequences of calls within which a mutant must be killed
RARE = 500  # the same for those that need a longer story
STEPS = 30
QUICK = [mutant for mutant in MUTANTS if mutant.quick]
REST = [mutant for mutant in MUTANTS if not mutant.quick]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One server for all mutants; each has conversations of its own."""
    with open_bench(tmp_path_factory.mktemp("mutants")) as opened:
        yield opened


def survives(bench: Bench, mutant: Mutant, examples: int = EXAMPLES) -> bool:
    """Whether the state machine finds nothing wrong with a mutant."""
    scripts = Scripts(bench.backend.cmd, mutant.sources())
    try:
        run_state_machine_as_test(
            machine_for(Bench(bench.runner, bench.backend, scripts), mutant.rules),
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                derandomize=True,
                phases=(Phase.generate,),
                report_multiple_bugs=False,
                verbosity=Verbosity.quiet,
                suppress_health_check=list(HealthCheck),
            ),
        )
    except ResponseError as error:
        if "XADD" not in str(error):  # the stream's own ids are a fence as well; anything else is a broken mutant
            raise
    except (RedisError, StoreUnavailable, StoreRefused):
        raise  # the server is not well: that says nothing about the mutant
    except Exception:  # a wrong answer, or one that the store's own code cannot read
        return False
    else:
        return True
    return False


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_broken_rule_is_noticed(bench: Bench, mutant: Mutant) -> None:
    """A script with this rule broken fails the state machine within 150 sequences."""
    assert not survives(bench, mutant)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", REST, ids=lambda mutant: mutant.name)
def test_every_other_broken_rule_is_noticed(bench: Bench, mutant: Mutant) -> None:
    """The same for the rules that the short run leaves out, within 500 sequences."""
    assert not survives(bench, mutant, RARE)


@pytest.mark.parametrize(("mutant", "scenario"), SCENARIOS, ids=lambda value: getattr(value, "name", ""))
async def test_broken_rule_fails_its_own_test(
    backend: Backend, conversation_id: str, mutant: Mutant, scenario: Scenario
) -> None:
    """What happens outside a conversation's life is told by one test each, which fails when its rule is broken."""
    store = Store(backend, scripts=Scripts(backend.cmd, mutant.sources()))

    try:
        await scenario(store, conversation_id)
    except (RedisError, StoreUnavailable, StoreRefused):
        raise
    except (Exception, pytest.fail.Exception):
        return
    raise AssertionError(f"{scenario.__name__} passes with a broken rule: {mutant.name}")


def test_there_are_enough_mutants_and_each_changes_its_script() -> None:
    """At least 25 in the short run; each has its own reason, and replaces exactly one place."""
    assert len(QUICK) >= 25
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in (*MUTANTS, *(mutant for mutant, _ in SCENARIOS)):
        assert mutant.sources()
