"""The ledger among processes: races have one winner, and a killed process leaves a change whole or
not at all.
"""

import functools
import multiprocessing
import os
import resource
import signal

import pytest

from processes import PATIENCE
from tailrace import AddRemove, BehindLedger, BudgetExceeded, Event, Guarantee, PureDP, StateError
from tailrace.ledger import Ledger, Mark

ROUNDS = pytest.mark.parametrize("rounds", [50, pytest.param(200, marks=pytest.mark.slow)])
FORK = multiprocessing.get_context("fork")
PROMISE = Guarantee(PureDP(epsilon=0.6), Event(), AddRemove, 10)


def race(attempt, rounds, racers=2):
    """What `attempt(racer, round)` gave each racer, round by round; all start each round
    together.
    """
    start, answers = FORK.Barrier(racers), FORK.SimpleQueue()

    def run(racer):
        results = []
        for number in range(rounds):
            start.wait(PATIENCE)
            try:
                results.append(attempt(racer, number))
            except BaseException as error:
                results.append(repr(error))
        answers.put((racer, results))

    workers = [FORK.Process(target=run, args=(racer,), daemon=True) for racer in range(racers)]
    for worker in workers:
        worker.start()
    given = dict(answers.get() for _ in workers)
    for worker in workers:
        worker.join(PATIENCE)
    return list(zip(*(given[racer] for racer in range(racers)), strict=True))


@ROUNDS
def test_of_two_creators_racing_for_the_last_of_a_budget_exactly_one_wins(tmp_path, rounds):
    ledger = Ledger(tmp_path / "l")
    for number in range(rounds):
        ledger.cap(f"city {number}", PureDP(epsilon=1), Event())
    own = functools.cache(lambda: Ledger(ledger.path))  # called in the children only: one for each

    def attempt(racer, number):
        try:
            own().charge(
                population=f"city {number}",
                path=f"/data/{racer}",
                fingerprint="f",
                guarantee=PROMISE,
            )
        except BudgetExceeded:
            return "refused"
        return "won"

    found = race(attempt, rounds)
    assert [sorted(results) for results in found] == [["refused", "won"]] * rounds
    winners = {
        (f"city {number}", f"/data/{results.index('won')}") for number, results in enumerate(found)
    }
    assert {(entry.population, entry.path) for entry in ledger.entries()} == winners
    assert len(ledger.entries()) == rounds


@ROUNDS
def test_of_two_copies_racing_for_a_step_exactly_one_wins(tmp_path, rounds):
    ledger = Ledger(tmp_path / "l")
    entries = [
        ledger.charge(
            population=f"city {number}", path="/data/a", fingerprint="f", guarantee=PROMISE
        ).id
        for number in range(rounds)
    ]
    own = functools.cache(lambda: Ledger(ledger.path))

    def attempt(racer, number):
        try:
            own().claim(entries[number], before=Mark(0, ""), after=Mark(1, f"copy {racer}"))
        except BehindLedger:
            return "refused"
        return "won"

    found = race(attempt, rounds)
    assert [sorted(results) for results in found] == [["refused", "won"]] * rounds
    for entry, results in zip(entries, found, strict=True):
        assert ledger.mark(entry) == Mark(1, f"copy {results.index('won')}")


def test_the_same_claim_made_twice_at_once_is_fine_for_both(tmp_path):
    ledger = Ledger(tmp_path / "l")
    entry = ledger.charge(population="city", path="/data/a", fingerprint="f", guarantee=PROMISE).id

    def attempt(racer, number):
        own = Ledger(tmp_path / "l")
        return own.claim(entry, before=own.mark(entry), after=Mark(1, "t"))

    assert race(attempt, rounds=1) == [(None, None)]
    assert ledger.mark(entry) == Mark(1, "t")


def test_of_ledgers_made_at_the_same_moment_no_charge_is_lost(tmp_path):
    def attempt(racer, number):
        own = Ledger(tmp_path / f"{number}.ledger")
        return own.charge(
            population="city", path=f"/data/{racer}", fingerprint="f", guarantee=PROMISE
        ).id

    for number, ids in enumerate(race(attempt, rounds=40, racers=3)):
        assert {entry.id for entry in Ledger(tmp_path / f"{number}.ledger").entries()} == set(ids)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{number}.ledger" for number in range(40)
    )


def test_two_creators_of_one_path_share_one_charge(tmp_path):
    def attempt(racer, number):
        own = Ledger(tmp_path / "l")
        return own.charge(
            population="city", path=f"/data/{number}", fingerprint="f", guarantee=PROMISE
        ).id

    rounds = race(attempt, rounds=40)
    assert all(one == two for one, two in rounds)
    assert [entry.id for entry in Ledger(tmp_path / "l").entries()] == [one for one, _ in rounds]


def story(path, point):
    """A ledger's whole life; said again from the start, it changes nothing."""
    ledger = Ledger(path, point=point)
    ledger.cap("city", PureDP(epsilon=1), Event())
    entry = (
        ledger.charge(population="city", path="/data/a", fingerprint="f", guarantee=PROMISE)
        if not (held := ledger.entries())
        else held[0]
    )
    for step in range(ledger.mark(entry.id).step, 3):
        ledger.claim(
            entry.id,
            before=Mark(step, f"{step}" if step else ""),
            after=Mark(step + 1, f"{step + 1}"),
        )


def in_child(work):
    """How a forked child ended: its exit code, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_process_killed_around_any_commit_goes_on_where_it_was(tmp_path):
    names = []
    story(tmp_path / "whole", names.append)
    assert set(names) == {"ledger.create", "ledger.cap", "ledger.charge", "ledger.claim"}
    for deadly in range(len(names)):
        path = tmp_path / str(deadly) / "l"
        path.parent.mkdir()
        passed = []

        def point(name, passed=passed, deadly=deadly):
            passed.append(name)
            if len(passed) == deadly + 1:
                os.kill(os.getpid(), signal.SIGKILL)

        assert in_child(lambda path=path, point=point: story(path, point)) == -signal.SIGKILL
        story(path, lambda _: None)
        (entry,) = Ledger(path).entries()
        assert entry.mark == Mark(3, "3")
        assert len(Ledger(path).caps()) == 1


def test_a_full_disk_is_refused_and_what_was_written_stays(tmp_path):
    ledger = Ledger(tmp_path / "l")
    entry = ledger.charge(population="city", path="/data/a", fingerprint="f", guarantee=PROMISE)

    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        for room in (0, 100, 5000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
            for path in ("l", "new"):
                with pytest.raises(StateError, match="cannot be opened or written"):
                    Ledger(tmp_path / path).charge(
                        population="b", path="/data/b", fingerprint="f", guarantee=PROMISE
                    )
        assert not (tmp_path / "new").exists()

    assert in_child(work) == 0
    assert Ledger(tmp_path / "l").entries() == (entry,)
