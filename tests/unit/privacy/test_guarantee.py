import json

import pytest

from tailrace import (
    ZCDP,
    AddRemove,
    ApproxDP,
    ConfigError,
    Event,
    Guarantee,
    Null,
    PureDP,
    Replace,
    User,
    Window,
)


def sentence(loss, unit=Event(), neighbours=AddRemove, horizon=365, **more):
    text = str(Guarantee(loss, unit, neighbours, horizon, **more))
    assert text.endswith(".") and ". " not in text, "one sentence"
    return text


def test_the_sentence_in_full():
    assert sentence(PureDP(epsilon=1)) == (
        "Whoever sees everything published over 365 steps, whatever else they know, can hardly "
        "tell whether any one "
        "insertion or deletion of a record is in the data or not: it makes no outcome more than "
        "2.72 times as likely or "
        "as unlikely (pure differential privacy, epsilon = 1); a record that is inserted and later "
        "deleted gets "
        "epsilon = 2, and a person with m such records gets m times that: epsilon = 2 m."
    )


def test_under_zcdp_a_life_costs_4_rho_and_a_person_4_m_squared_rho():
    text = sentence(ZCDP(rho=0.1))
    assert "rho = 0.4," in text
    assert "rho = 0.4 m^2" in text


def test_less_where_the_counter_proves_it():
    text = sentence(ZCDP(rho=0.1), life=ZCDP(rho=0.2))
    assert "gets rho = 0.2," in text
    assert "rho = 0.2 m^2" in text


def test_under_approx_dp_the_epsilon_of_that_rho_at_the_same_delta():
    guarantee = Guarantee(ZCDP(rho=0.1).as_approx(delta=1e-6), Event(), AddRemove, 10)
    assert guarantee.of_life() == ZCDP(rho=0.4).as_approx(delta=1e-6)
    assert guarantee.of_person(5) == ZCDP(rho=0.1 * 4 * 25).as_approx(delta=1e-6)
    assert "the epsilon of rho = 0.4 m^2 at the same delta" in str(guarantee)


def test_with_retention_a_whole_life_costs_one_event():
    guarantee = Guarantee(PureDP(epsilon=1), Event(), AddRemove, 100, retention=30)
    assert guarantee.of_life() == PureDP(epsilon=1)
    assert guarantee.of_person(3) == PureDP(epsilon=3)
    assert (
        "a record leaves by a public rule 30 steps after it came, so its whole life gets epsilon = "
        "1" in str(guarantee)
    )


def test_other_units_say_who_and_how_much():
    assert (
        "everything that one person (column 'id') contributes (at most 3 inserted records and "
        "their deletions)" in sentence(PureDP(epsilon=1), User(column="id", events=3))
    )
    assert "at most 1 record at any one time" in sentence(
        PureDP(epsilon=1), User(column="id", records=1)
    )
    assert "in the whole history" in sentence(ZCDP(rho=0.1), User(column="id"), Replace)
    assert "from data that count nowhere" in sentence(ZCDP(rho=0.1), User(column="id"), Null)
    window = sentence(PureDP(epsilon=1), Window(steps=7, column="id", records=1), horizon=None)
    assert "within any 7 consecutive steps" in window
    assert "the whole stream, however long" in window


def test_composition_adds_losses_of_one_unit():
    one = Guarantee(PureDP(epsilon=0.5), Event(), AddRemove, 10)
    two = Guarantee(ZCDP(rho=0.1), Event(), AddRemove, 20, life=ZCDP(rho=0.2))
    both = one & two
    assert both.loss == ZCDP(rho=0.225)
    assert both.horizon == 20
    assert both.of_life() == ZCDP(rho=0.2 + 0.5)
    assert (one & Guarantee(PureDP(epsilon=1), Event(), AddRemove, None)).horizon is None
    kept = Guarantee(PureDP(epsilon=1), Event(), AddRemove, 10, retention=3)
    assert (kept & kept).of_life() == PureDP(epsilon=2)
    assert (kept & one).of_life() == PureDP(epsilon=2)


def test_guarantees_for_other_units_or_neighbours_do_not_compose():
    person = User(column="id")
    event = Guarantee(PureDP(epsilon=1), Event(), AddRemove, 10)
    for a, b in (
        (event, Guarantee(PureDP(epsilon=1), person, AddRemove, 10)),
        (
            Guarantee(PureDP(epsilon=1), person, Replace, 10),
            Guarantee(PureDP(epsilon=1), person, Null, 10),
        ),
    ):
        with pytest.raises(ConfigError, match="same unit and the same neighbours"):
            a & b
    with pytest.raises(ConfigError, match="composes with a guarantee"):
        event & None


def test_a_large_epsilon_is_not_made_small_by_printing_it():
    assert "more than e^800 times" in sentence(PureDP(epsilon=800))
    assert "more than 22100 times" in sentence(PureDP(epsilon=10)), "22026.5, rounded up"


def test_where_nothing_is_promised_for_a_life_the_sentence_says_so():
    text = sentence(ApproxDP(epsilon=20, delta=1e-6))
    assert "nothing is promised for a record that is inserted and later deleted" in text


def test_a_life_is_asked_of_events_only():
    with pytest.raises(ConfigError, match="asked of an Event"):
        Guarantee(PureDP(epsilon=1), User(column="id"), AddRemove, 10).of_person(2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: User(column=""), "column must name"),
        (lambda: User(column="id", events=0), "events must be a whole number"),
        (lambda: User(column="id", events=1, records=1), "events= or records=, not both"),
        (lambda: Window(steps=0, column="id", records=1), "steps must be"),
        (lambda: Window(steps=1, column="id", records=-1), "records must be"),
        (lambda: Guarantee(1.0, Event(), AddRemove, 10), "loss must be PureDP"),  # type: ignore[arg-type]
        (lambda: Guarantee(PureDP(epsilon=1), "event", AddRemove, 10), "unit must be Event"),  # type: ignore[arg-type]
        (lambda: Guarantee(PureDP(epsilon=1), Event(), "add", 10), "neighbours must be AddRemove"),  # type: ignore[arg-type]
        (lambda: Guarantee(PureDP(epsilon=1), Event(), AddRemove, 0), "horizon must be"),
        (lambda: Guarantee(PureDP(epsilon=1), Event(), Replace, 3), "its neighbours are AddRemove"),
        (lambda: Guarantee(PureDP(epsilon=1), Event(), AddRemove, 3, life=3), "life is a loss"),  # type: ignore[arg-type]
        (
            lambda: Guarantee(PureDP(epsilon=1), Event(), AddRemove, 3, PureDP(epsilon=1), 4),
            "with a retention",
        ),
        (
            lambda: Guarantee(PureDP(epsilon=1), User(column="id"), AddRemove, 3, retention=2),
            "belong to the unit Event",
        ),
    ],
)
def test_bad_parts_are_refused_in_one_sentence(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_unit_has_no_default():
    with pytest.raises(ConfigError, match="Guarantee needs unit="):
        Guarantee(ApproxDP(epsilon=1, delta=1e-6))  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee(PureDP(epsilon="1/3"), Event(), AddRemove, 10, retention=3),
        Guarantee(ZCDP(rho=0.1), Event(), AddRemove, None, life=ZCDP(rho=0.2)),
        Guarantee(ZCDP(rho=0.1).as_approx(delta=1e-6), User(column="id", events=2), Replace, 7),
        Guarantee(PureDP(epsilon=1), Window(steps=7, column="id", records=1), Null, None),
    ],
    ids=lambda guarantee: guarantee.short,
)
def test_a_guarantee_survives_a_json_file_exactly(guarantee):
    again = Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict())))
    assert again == guarantee
    assert str(again) == str(guarantee)


def test_a_stored_guarantee_of_an_unknown_kind_is_refused():
    plain = Guarantee(PureDP(epsilon=1), Event(), AddRemove, 10).to_dict()
    with pytest.raises(ConfigError, match="does not know"):
        Guarantee.from_dict({**plain, "loss": {"kind": "Magic", "epsilon": "1"}})
