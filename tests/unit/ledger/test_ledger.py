import os
import random
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from tailrace import (
    ZCDP,
    AddRemove,
    ApproxDP,
    BehindLedger,
    BudgetExceeded,
    ConfigError,
    Corrupt,
    Error,
    Event,
    Guarantee,
    Mismatch,
    Null,
    PureDP,
    Replace,
    StateError,
    User,
    Window,
)
from tailrace.ledger import Cap, Ledger, Mark, Spent
from tailrace.ledger.file import digest, transaction

START = Mark(0, "")


def promise(loss=PureDP(epsilon=0.5), unit=Event(), neighbours=AddRemove, **more):
    return Guarantee(loss, unit, neighbours, 10, **more)


def charge(ledger, path="/data/a.tail", guarantee=promise(), population="city", **more):
    return ledger.charge(
        population=population, path=path, fingerprint="f1", guarantee=guarantee, **more
    )


def cap(loss, unit=Event(), neighbours=AddRemove):
    return Cap(population="city", loss=loss, unit=unit, neighbours=neighbours)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "tailrace.ledger")


def test_what_is_written_is_there_when_the_file_is_opened_again(ledger):
    ledger.cap("city", ZCDP(rho=1), Event())
    first = charge(ledger)
    second = charge(
        ledger, "/data/b.tail", promise(ZCDP(rho="1/3").as_approx(delta=1e-6)), fork_of=first.id
    )
    other = charge(ledger, population="land")
    ledger.claim(first.id, before=START, after=Mark(1, "t"))
    again = Ledger(ledger.path)
    assert again.caps() == (cap(ZCDP(rho=1)),)
    assert [entry.id for entry in again.entries()] == [first.id, second.id, other.id]
    assert again.entries("city")[1] == second
    assert again.entries("city")[1].guarantee.loss.rho == Fraction(1, 3)
    assert again.entries("land") == (other,)
    assert again.entries("nobody") == ()
    assert again.mark(first.id) == Mark(1, "t")
    assert len({first.id, second.id, other.id}) == 3 and re.fullmatch("[0-9a-f]{32}", first.id)
    assert first.created.endswith("+00:00")
    assert [path.name for path in ledger.path.parent.iterdir()] == ["tailrace.ledger"], (
        "one file, at rest"
    )


def test_the_last_of_a_budget_can_be_spent_exactly_and_nothing_beyond_it(ledger):
    ledger.cap("city", PureDP(epsilon=1), Event())
    for place in range(10):  # ten floats of 0.1 do not add up to 1
        charge(ledger, f"/data/{place}", promise(PureDP(epsilon=0.1)))
    with pytest.raises(BudgetExceeded) as refused:
        charge(ledger, "/data/more", promise(PureDP(epsilon="1e-30")))
    assert str(refused.value) == (
        "Population 'city' has a cap of epsilon = 1, of which epsilon = 1 is spent, and this "
        "stream asks for "
        "epsilon = 1e-30: ask for less, or raise the cap."
    )
    assert len(ledger.entries()) == 10
    charge(ledger, "/data/more", population="without a cap")


def test_a_charge_without_a_step_is_not_made_twice(ledger):
    ledger.cap("city", PureDP(epsilon=0.5), Event())
    entry = charge(ledger)
    assert charge(ledger) == entry
    ledger.claim(entry.id, before=START, after=Mark(1, "t"))
    with pytest.raises(
        BehindLedger, match=r"of this path that stands at step 1.*Stream\.fork.*another path"
    ):
        charge(ledger)
    with pytest.raises(BudgetExceeded):
        charge(ledger, "/data/b.tail")


@pytest.mark.parametrize(
    "change",
    [
        {"path": "/data/b.tail"},
        {"fingerprint": "f2"},
        {"population": "land"},
        {"fork_of": "0f"},
        {
            "guarantee": promise(ApproxDP(epsilon=1, delta=1e-6, rho=0.02))
        },  # equal but for what was proved
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_charge_that_differs_in_anything_is_another(ledger, change):
    same = {
        "population": "city",
        "path": "/data/a.tail",
        "fingerprint": "f1",
        "guarantee": promise(ApproxDP(epsilon=1, delta=1e-6, rho=0.01)),
    }
    assert ledger.charge(**same).id == ledger.charge(**same).id
    assert ledger.charge(**same).id != ledger.charge(**{**same, **change}).id
    assert len(ledger.entries()) == 2


def test_a_cap_may_be_changed_to_what_holds_the_entries(ledger):
    charge(ledger, "/data/a")
    charge(ledger, "/data/b")
    with pytest.raises(
        BudgetExceeded, match=r"have spent epsilon = 1, which is more than a cap of epsilon = 0\.9"
    ):
        ledger.cap("city", PureDP(epsilon=0.9), Event())
    assert ledger.caps() == ()
    ledger.cap("city", PureDP(epsilon=1), Event())
    ledger.cap("city", ZCDP(rho=0.25), Event())
    assert ledger.caps() == (cap(ZCDP(rho=0.25)),)
    with pytest.raises(ConfigError, match="says nothing about the unit"):
        ledger.cap("city", PureDP(epsilon=100), Window(steps=3, column="id", records=1))
    assert ledger.caps() == (cap(ZCDP(rho=0.25)),)


def test_a_mark_moves_for_one_caller_only(ledger):
    entry = charge(ledger)
    ledger.claim(entry.id, before=START, after=Mark(1, "ours"))
    ledger.claim(entry.id, before=START, after=Mark(1, "ours"))  # after a crash: already ours
    with pytest.raises(
        BehindLedger, match=r"stands at step 0 and its ledger at step 1 .* Stream\.fork\(path, to\)"
    ):
        ledger.claim(entry.id, before=START, after=Mark(1, "theirs"))
    ledger.claim(entry.id, before=Mark(1, "ours"), after=Mark(2, "next"))
    with pytest.raises(BehindLedger):  # a backup of step 1, though it finished that step itself
        ledger.claim(entry.id, before=START, after=Mark(1, "ours"))
    with pytest.raises(BehindLedger):  # beside: the same step of another copy
        ledger.claim(entry.id, before=Mark(2, "other"), after=Mark(3, "x"))
    with pytest.raises(BehindLedger, match="the ledger is an older copy"):
        ledger.claim(entry.id, before=Mark(7, "x"), after=Mark(8, "y"))
    assert ledger.mark(entry.id) == Mark(2, "next")
    assert ledger.entries()[0].mark == Mark(2, "next")


def test_a_stream_without_its_entry_is_refused(ledger):
    for ask in (
        lambda: ledger.mark("00"),
        lambda: ledger.claim("00", before=START, after=Mark(1, "t")),
    ):
        with pytest.raises(BehindLedger, match=r"no entry of this stream.*Stream\.fork"):
            ask()


def test_a_mark_never_moves_back(ledger):
    entry = charge(ledger)
    ledger.claim(entry.id, before=START, after=Mark(7, "fork"))
    for after in (Mark(6, "t"), Mark(7, "t")):
        with pytest.raises(ConfigError, match="only moves forward"):
            ledger.claim(entry.id, before=Mark(7, "fork"), after=after)


@pytest.mark.parametrize(
    ("loss", "losses", "spent"),
    [
        (PureDP(epsilon=9), [], Spent(amount=Fraction(0))),
        (
            PureDP(epsilon=9),
            [PureDP(epsilon=0.1), PureDP(epsilon="1/3")],
            Spent(amount=Fraction(13, 30)),
        ),
        (
            ZCDP(rho=9),
            [PureDP(epsilon=1), ZCDP(rho=0.1), ZCDP(rho=0.2).as_approx(delta=1e-6)],
            Spent(amount=Fraction(8, 10)),
        ),
        (ApproxDP(epsilon=9, delta=1e-6), [PureDP(epsilon=1)] * 2, Spent(amount=Fraction(2))),
        (
            ApproxDP(epsilon=9, delta=1e-6),
            [PureDP(epsilon=1), ZCDP(rho=0.1), ZCDP(rho=0.2).as_approx(delta=1e-9)],
            Spent(amount=ZCDP(rho=0.8).as_approx(delta=1e-6).epsilon, delta=Fraction(1, 10**6)),
        ),
        (  # many small pure losses: through rho is less than their sum
            ApproxDP(epsilon=9, delta=1e-6),
            [PureDP(epsilon=0.1)] * 100,
            Spent(amount=ZCDP(rho=0.5).as_approx(delta=1e-6).epsilon, delta=Fraction(1, 10**6)),
        ),
        (
            ApproxDP(epsilon=9, delta=1e-6),
            [
                ApproxDP(epsilon=1, delta="4e-7"),
                ApproxDP(epsilon=2, delta="6e-7"),
                PureDP(epsilon=0.5),
            ],
            Spent(amount=Fraction(7, 2), delta=Fraction(1, 10**6)),
        ),
        (
            ApproxDP(epsilon=9, delta=1e-6),
            [ApproxDP(epsilon=1, delta="4e-7"), ZCDP(rho=0.1)],
            Spent(
                amount=1 + ZCDP(rho=0.1).as_approx(delta="6e-7").epsilon, delta=Fraction(1, 10**6)
            ),
        ),
    ],
)
def test_losses_add_up_in_the_terms_of_the_cap(loss, losses, spent):
    assert cap(loss).spent(promise(one) for one in losses) == spent


def test_a_delta_is_a_budget_too():
    limit = cap(ApproxDP(epsilon=100, delta=1e-6))
    loose = [promise(ApproxDP(epsilon=1, delta="5e-7"))] * 2
    limit.admit(loose)
    for more in (ApproxDP(epsilon=1, delta="1e-12"), ZCDP(rho=0.001)):
        with pytest.raises(
            BudgetExceeded,
            match="cap of epsilon = 100, delta = 1e-6, of which epsilon = 2, delta = 1e-6",
        ):
            limit.admit(loose, promise(more))
    limit.admit(loose, promise(PureDP(epsilon=98)))


def test_the_smallest_losses_still_count():
    tiny = promise(PureDP(epsilon="1e-30"))
    assert cap(ZCDP(rho=1)).spent([tiny] * 2).amount == Fraction(1, 10**60)
    assert cap(ApproxDP(epsilon=1, delta=1e-6)).spent([tiny, promise(ZCDP(rho="1e-30"))]).amount > 0
    nearly = [
        promise(ApproxDP(epsilon=1, delta=Fraction(1, 10**6) - Fraction(1, 10**31))),
        promise(ZCDP(rho=0.1)),
    ]
    with pytest.raises(BudgetExceeded):
        cap(ApproxDP(epsilon=100, delta=1e-6)).admit(nearly)


PERSON = User(column="id", events=3)


@pytest.mark.parametrize(
    ("guarantee", "unit", "epsilon"),
    [
        (promise(unit=PERSON), PERSON, "0.5"),
        (promise(), PERSON, "3"),  # three records, each inserted and deleted
        (promise(retention=2), PERSON, "1.5"),
        (promise(life=PureDP(epsilon=0.6)), PERSON, "1.8"),
        (promise(unit=PERSON), Event(), "1"),
        (promise(unit=User(column="id")), Event(), "1"),
        (promise(unit=User(column="id", records=2)), Event(), "1"),
    ],
)
def test_units_are_converted_where_that_is_proved(guarantee, unit, epsilon):
    assert cap(PureDP(epsilon=9), unit).spent([guarantee]) == Spent(amount=Fraction(epsilon))


def test_a_person_with_one_event_less_is_two_people_away():
    """Why a `User` stream counts twice under an `Event` cap: the bound of one event a person lets
    the next one in.
    """

    def accepted(rows):  # User(events=1): the first of a person's rows
        return {rows[0]} if rows else set()

    with_it, without_it = accepted(["bin 1", "bin 2"]), accepted(["bin 2"])
    assert len(with_it ^ without_it) == 2  # one epsilon was proved for a change of one
    assert cap(PureDP(epsilon=9)).spent([promise(unit=User(column="id", events=1))]).amount == 1


WEEK = Window(steps=7, column="id", records=1)


@pytest.mark.parametrize(
    ("guarantee", "limit", "message"),
    [
        (
            promise(unit=PERSON, neighbours=Replace),
            cap(PureDP(epsilon=9), PERSON),
            "neighbours Replace cannot be held",
        ),
        (
            promise(unit=PERSON),
            cap(PureDP(epsilon=9), PERSON, Null),
            "neighbours AddRemove cannot be held",
        ),
        (
            promise(unit=PERSON, neighbours=Null),
            cap(PureDP(epsilon=9)),
            "neighbours Null cannot be held",
        ),
        (promise(unit=WEEK), cap(PureDP(epsilon=9)), "says nothing about the unit"),
        (promise(), cap(PureDP(epsilon=9), WEEK), "says nothing about the unit"),
        (
            promise(),
            cap(PureDP(epsilon=9), User(column="id", records=3)),
            "says nothing about the unit",
        ),
        (promise(), cap(PureDP(epsilon=9), User(column="id")), "says nothing about the unit"),
        (
            promise(unit=PERSON),
            cap(PureDP(epsilon=9), User(column="other", events=3)),
            "says nothing about the unit",
        ),
        (
            promise(unit=PERSON),
            cap(PureDP(epsilon=9), User(column="id", events=4)),
            "says nothing about the unit",
        ),
        (promise(ZCDP(rho=0.1)), cap(PureDP(epsilon=9)), "PureDP cap holds only PureDP"),
        (
            promise(ZCDP(rho=0.1).as_approx(delta=1e-6)),
            cap(PureDP(epsilon=9)),
            "PureDP cap holds only PureDP",
        ),
        (promise(ApproxDP(epsilon=1, delta=1e-6)), cap(ZCDP(rho=9)), "implies no zCDP loss"),
        (
            promise(ApproxDP(epsilon=20, delta=1e-6)),
            cap(ApproxDP(epsilon=900, delta=1e-6), PERSON),
            "delta would reach 1",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_with_a_reason(ledger, guarantee, limit, message):
    ledger.cap("city", limit.loss, limit.unit, limit.neighbours)
    with pytest.raises(ConfigError, match=message):
        charge(ledger, guarantee=guarantee)
    assert ledger.entries() == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda ledger: ledger.cap("", PureDP(epsilon=1), Event()), "population must be a text"),
        (lambda ledger: ledger.cap("city", 1.0, Event()), "loss must be"),
        (lambda ledger: ledger.cap("city", PureDP(epsilon=1), "event"), "unit must be"),
        (lambda ledger: charge(ledger, path=""), "path must be a text"),
        (lambda ledger: charge(ledger, path=os.fsdecode(b"/data/\xff")), "path must be a text"),
        (lambda ledger: charge(ledger, population=3), "population must be a text"),
        (lambda ledger: Mark(-1, ""), "step must be a whole number"),
        (lambda ledger: Mark(True, ""), "step must be a whole number"),
        (lambda ledger: Mark(1, None), "tag must be a text"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(ledger, wrong, message):
    with pytest.raises(ConfigError, match=message):
        wrong(ledger)


def test_the_points_stand_around_every_commit(tmp_path):
    seen = []

    def point(name):
        exists = (tmp_path / "l").exists()
        seen.append(
            (
                name,
                exists and Ledger(tmp_path / "l").entries()[:1],
                exists and len(Ledger(tmp_path / "l").caps()),
            )
        )

    ledger = Ledger(tmp_path / "l", point=point)
    assert seen == [("ledger.create", False, False), ("ledger.create", (), 0)]
    seen.clear()
    ledger.cap("city", PureDP(epsilon=1), Event())
    assert seen == [("ledger.cap", (), 0), ("ledger.cap", (), 1)]
    seen.clear()
    entry = charge(ledger)
    assert seen == [("ledger.charge", (), 1), ("ledger.charge", (entry,), 1)]
    seen.clear()
    ledger.claim(entry.id, before=START, after=Mark(1, "t"))
    assert [(name, entries[0].mark.step) for name, entries, _ in seen] == [
        ("ledger.claim", 0),
        ("ledger.claim", 1),
    ]


def test_a_change_that_is_broken_off_leaves_nothing(ledger):
    entry = charge(ledger)

    def stop(name):
        raise KeyboardInterrupt

    broken = Ledger(ledger.path, point=stop)
    for change in (
        lambda: broken.claim(entry.id, before=START, after=Mark(1, "t")),
        lambda: charge(broken, "/data/b"),
        lambda: broken.cap("city", PureDP(epsilon=1), Event()),
    ):
        with pytest.raises(KeyboardInterrupt):
            change()
    assert ledger.entries() == (entry,)
    assert ledger.caps() == ()


def filled(ledger):
    ledger.cap("city", PureDP(epsilon=2), Event())
    entries = [charge(ledger, f"/data/{place}") for place in range(4)]
    ledger.claim(entries[2].id, before=START, after=Mark(1, "t"))
    return ledger.path.read_bytes(), (ledger.caps(), ledger.entries())


def test_a_flipped_bit_is_noticed_wherever_it_matters(ledger, tmp_path):
    data, held = filled(ledger)
    places = random.Random(3)
    noticed = 0
    for number in range(400):
        damaged, place = bytearray(data), places.randrange(8 * len(data))
        damaged[place // 8] ^= 1 << place % 8
        path = tmp_path / f"{number}.ledger"
        path.write_bytes(damaged)
        try:
            again = Ledger(path)
            assert (again.caps(), again.entries()) == held, (
                f"bit {place} changed the ledger in silence"
            )
        except (Corrupt, Mismatch):
            noticed += 1
    assert noticed > 20


def test_a_damaged_table_definition_is_noticed_though_sqlite_cannot_even_quote_it(ledger):
    data, _ = filled(ledger)
    place = data.index(b"NOT NULL") + len(b"NOT ")
    ledger.path.write_bytes(data[:place] + bytes([data[place] | 0x80]) + data[place + 1 :])
    for use in (lambda: Ledger(ledger.path), lambda: charge(ledger, "/data/x")):
        with pytest.raises(Corrupt):
            use()


def test_a_commit_waits_for_the_disk(ledger):
    with transaction(ledger.path, "BEGIN") as file:
        assert file.execute("PRAGMA synchronous").fetchone() == (3,), "EXTRA"
        assert file.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_changed_value_is_noticed_though_the_pages_are_sound(ledger):
    filled(ledger)
    for change in (
        "UPDATE entries SET step = 0",
        "UPDATE caps SET terms = replace(terms, '2', '3')",
    ):
        with sqlite3.connect(ledger.path) as file:
            file.execute(change)
        file.close()
        for use in (lambda: Ledger(ledger.path), lambda: charge(ledger, "/data/x")):
            with pytest.raises(Corrupt, match=r"'tailrace\.ledger' is damaged"):
                use()
        with sqlite3.connect(ledger.path) as file:
            file.execute("DELETE FROM entries")
        file.close()


def test_a_file_cut_short_is_damaged_and_never_taken_for_a_new_one(ledger):
    data, _ = filled(ledger)
    for length in (0, 1, 50, 100, 511, 512, 600, 4095, 4096, len(data) - 4096, len(data) - 1):
        ledger.path.write_bytes(data[:length])
        with pytest.raises(Corrupt):
            Ledger(ledger.path)
        if (
            length <= 4096
        ):  # nothing is left of the entries: no open ledger may go on as if there were none
            with pytest.raises(Corrupt):
                charge(ledger, "/data/x")


@pytest.mark.parametrize("log", ["wal", "journal"])
def test_a_log_without_its_file_is_not_played_into_a_new_one(tmp_path, log):
    (tmp_path / f"l-{log}").write_bytes(b"rest")
    with pytest.raises(Corrupt):
        Ledger(tmp_path / "l")
    assert not (tmp_path / "l").exists()


def test_another_format_and_another_kind_of_file_are_refused(ledger, tmp_path):
    with sqlite3.connect(ledger.path) as file:
        file.execute("PRAGMA user_version = 2")
    file.close()
    with pytest.raises(Mismatch, match="has format 2 and this version of Tailrace reads format 1"):
        Ledger(ledger.path)
    with sqlite3.connect(tmp_path / "other.db") as file:
        file.execute("CREATE TABLE caps (a)")
    file.close()
    with pytest.raises(Mismatch, match=r"'other\.db' is not a Tailrace ledger"):
        Ledger(tmp_path / "other.db")
    (tmp_path / "text").write_text("a text of some length, " * 100)
    with pytest.raises(Corrupt):
        Ledger(tmp_path / "text")


def test_a_guarantee_of_a_later_version_is_a_mismatch_not_damage(ledger):
    row = ("id", "city", "p", "f", '{"loss": {"kind": "Magic"}}', None, "now", 0, "")
    with sqlite3.connect(ledger.path) as file:
        file.execute(
            "INSERT INTO entries VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, digest(row))
        )
    file.close()
    with pytest.raises(Mismatch, match="written by another version"):
        ledger.entries()
    ledger.claim("id", before=START, after=Mark(1, "t"))  # keeps the row's text as it is
    assert ledger.mark("id") == Mark(1, "t")


def test_what_cannot_be_opened_or_written_says_so(ledger, tmp_path):
    for path in (tmp_path / "missing" / "l", tmp_path, ledger.path / "l"):
        with pytest.raises(StateError, match="cannot be opened or written") as refused:
            Ledger(path)
        assert not isinstance(refused.value, Corrupt | Mismatch)
        assert refused.value.__cause__ is None and refused.value.__suppress_context__
    ledger.path.unlink()
    with pytest.raises(StateError, match="cannot be opened or written"):
        charge(ledger)
    assert not ledger.path.exists(), "a ledger that is gone is not made again in silence"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_read_only_place_is_refused(ledger):
    ledger.path.parent.chmod(0o555)
    try:
        for use in (lambda: charge(ledger), lambda: Ledger(ledger.path.parent / "new")):
            with pytest.raises(StateError, match="cannot be opened or written"):
                use()
    finally:
        ledger.path.parent.chmod(0o755)


def test_a_ledger_kept_busy_is_refused_after_a_while(ledger, monkeypatch):
    monkeypatch.setattr("tailrace.ledger.file._PATIENCE", 0.05)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StateError, match="kept busy by another process"):
        charge(ledger)
    assert ledger.entries() == (), "reading goes on"
    other.close()
    charge(ledger)


def test_every_message_is_one_sentence_and_names_no_directory(ledger, tmp_path):
    entry = charge(ledger)
    ledger.cap("city", PureDP(epsilon=0.5), Event())
    for wrong in (
        lambda: charge(ledger, "/data/x"),
        lambda: ledger.mark("no"),
        lambda: ledger.claim(entry.id, before=Mark(2, "secret"), after=Mark(3, "t")),
        lambda: ledger.cap("city", PureDP(epsilon=0.1), Event()),
        lambda: charge(ledger, "/data/x", promise(unit=WEEK)),
        lambda: Ledger(tmp_path),
    ):
        with pytest.raises(Error) as refused:
            wrong()
        message = str(refused.value)
        assert message.endswith(".") and ". " not in message
        assert str(tmp_path) not in message and "secret" not in message and entry.id not in message


def test_where_links_are_refused_one_ledger_is_made_all_the_same(tmp_path, monkeypatch):
    """Of many that make it at once, none replaces another's: no charge is lost."""

    def refused(*_, **options):
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    path, paths = tmp_path / "tailrace.ledger", [f"/data/{n}.tail" for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: charge(Ledger(path), one), paths))
    assert sorted(entry.path for entry in Ledger(path).entries()) == paths
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    elsewhere = tmp_path / "linked.ledger"
    elsewhere.symlink_to(tmp_path / "nowhere" / "else")
    with pytest.raises(StateError):
        Ledger(elsewhere)
    assert elsewhere.is_symlink()
