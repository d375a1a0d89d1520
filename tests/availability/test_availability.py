"""Who can be picked: the contract of all rules, their laws, their names, and hostile input."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedcbs.availability import (
    Always,
    Availability,
    Bernoulli,
    BernoulliBeta,
    ClassQuota,
    Markov,
    Trace,
    UniformFraction,
    list_availabilities,
    parse_availability,
)
from fedcbs.availability._markov import _coins
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from tests.goodness_of_fit import SURPRISE, assert_law

CLIENTS = 24
COUNTS = np.eye(4, dtype=np.int64)[np.arange(CLIENTS) % 4] * 5

RULES: dict[str, Availability] = {
    "always": Always(),
    "uniform": UniformFraction(0.3),
    "class-quota": ClassQuota((3, 1)).bind(COUNTS),
    "bernoulli": Bernoulli(0.4),
    "bernoulli-each": Bernoulli(np.linspace(0, 1, CLIENTS)),
    "bernoulli-beta": BernoulliBeta(1, 2),
    "markov": Markov(0.1, 0.3),
    "markov-restless": Markov(0.9, 0.8),
    "markov-slow": Markov(0.01, 0.02),
    "markov-alternating": Markov(1.0, 1.0),
    "markov-forgetful": Markov(0.4, 0.6),
    "trace": Trace.from_rounds([[0, 3, 5], [], [23]], first_round=1),
}

every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


def rounds(rule: Availability, indices: list[int], seed: int = 0) -> list[list[int]]:
    return [rule.available(r, num_clients=CLIENTS, seed=seed).tolist() for r in indices]


@every_rule
def test_the_answer_is_ascending_distinct_clients(rule: Availability) -> None:
    for index in range(20):
        clients = rule.available(index, num_clients=CLIENTS, seed=3)
        assert clients.dtype == np.int64
        assert clients.ndim == 1
        assert (np.diff(clients) > 0).all()
        assert clients.size == 0 or (clients[0] >= 0 and clients[-1] < CLIENTS)


@every_rule
@settings(max_examples=15, deadline=None)
@given(order=st.lists(st.integers(0, 60), min_size=1, max_size=12), seed=st.integers(0, 2**70))
def test_the_answer_depends_on_seed_and_round_alone(rule: Availability, order: list[int], seed: int) -> None:
    in_any_order = dict(zip(order, rounds(rule, order, seed), strict=True))
    fresh = pickle.loads(pickle.dumps(rule))
    in_sequence = rounds(fresh, list(range(max(order) + 1)), seed)
    for index, clients in in_any_order.items():
        assert clients == in_sequence[index]
        assert clients == rounds(copy.deepcopy(rule), [index], seed)[0]


@every_rule
def test_writing_into_an_answer_changes_no_later_one(rule: Availability) -> None:
    before = rounds(rule, [4])
    rule.available(4, num_clients=CLIENTS, seed=0)[:] = -1
    assert rounds(rule, [4]) == before


@pytest.mark.parametrize(
    "name", [name for name in RULES if name not in ("always", "trace", "markov-alternating", "markov-slow")]
)
def test_seeds_and_rounds_differ(name: str) -> None:
    rule = RULES[name]
    assert rounds(rule, list(range(5)), seed=0) != rounds(rule, list(range(5)), seed=1)
    assert len({tuple(clients) for clients in rounds(rule, list(range(12)))}) > 3


@every_rule
def test_bad_arguments_are_refused_by_name(rule: Availability) -> None:
    for bad in (-1, 1.5, None, True):
        with pytest.raises(InvalidArgumentError, match="round_index="):
            rule.available(bad, num_clients=CLIENTS, seed=0)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="seed="):
            rule.available(0, num_clients=CLIENTS, seed=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="num_clients=0"):
        rule.available(0, num_clients=0, seed=0)


@every_rule
def test_binding_a_population_twice_is_binding_it_once(rule: Availability) -> None:
    bound = rule.bind(COUNTS)
    assert rounds(bound, [0, 7]) == rounds(bound.bind(COUNTS), [0, 7]) == rounds(rule, [0, 7])
    with pytest.raises(InvalidArgumentError, match=r"label_counts"):
        rule.bind(np.zeros((0, 3)))


@pytest.mark.parametrize(
    ("fraction", "clients", "size"),
    [(0.3, 200, 60), (0.3, 120, 36), (1e-9, 50, 1), (1.0, 7, 7), (0.29, 100, 29), (1, 1, 1)],
)
def test_uniform_has_exactly_its_share(fraction: float, clients: int, size: int) -> None:
    assert UniformFraction(fraction).available(9, num_clients=clients, seed=1).size == size


def test_uniform_makes_every_set_equally_likely() -> None:
    rule = UniformFraction(0.5)
    sets = Counter(int((2 ** rule.available(r, num_clients=4, seed=11)).sum()) for r in range(3000))
    assert_law(sets, {2**a + 2**b: 1 / 6 for a, b in itertools.combinations(range(4), 2)})


def test_quotas_are_met_each_round_and_fair_within_a_class() -> None:
    rule = ClassQuota((3, 1, 0, 6)).bind(COUNTS)
    times = np.zeros(CLIENTS)
    for index in range(600):
        clients = rule.available(index, num_clients=CLIENTS, seed=2)
        assert np.bincount(clients % 4, minlength=4).tolist() == [3, 1, 0, 6]
        times[clients] += 1
    assert stats.chisquare(times[0::4]).pvalue > SURPRISE
    assert stats.chisquare(times[1::4]).pvalue > SURPRISE


def test_a_clients_class_is_its_largest_and_the_empty_have_none() -> None:
    counts = [[2, 5, 1], [3, 3, 0], [0, 0, 0], [0, 1, 1], [0, 0, 9]]
    rule = ClassQuota((1, 2, 1)).bind(counts)
    assert rule.available(0, num_clients=5, seed=0).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("quotas", "message"),
    [
        ((7, 1), "class 0 has 6 clients, fewer than its quota of 7"),
        ((1, 1, 1), r"quotas=\(1, 1, 1\) for 4 classes; give 4 numbers"),
    ],
)
def test_quotas_that_do_not_fit_the_population_are_refused(quotas: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ClassQuota(quotas).bind(COUNTS)


@pytest.mark.parametrize("quotas", [(0, 0), (-1, 2), (1.5, 2), (), [[1, 2]]])
def test_quotas_that_cannot_be_are_refused(quotas: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match="quotas"):
        ClassQuota(quotas)


def test_a_quota_needs_its_population() -> None:
    with pytest.raises(InvalidArgumentError, match="call bind"):
        ClassQuota((1, 1)).available(0, num_clients=4, seed=0)
    with pytest.raises(InvalidArgumentError, match="bound to 24 clients"):
        RULES["class-quota"].available(0, num_clients=25, seed=0)
    with pytest.raises(InvalidArgumentError, match=r"give 3 numbers, one for each$"):
        ClassQuota((1, 1)).bind([[1, 0, 0]])


def test_each_client_comes_with_its_own_probability() -> None:
    probabilities = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    rule = Bernoulli(probabilities)
    times = np.zeros(5)
    for index in range(2000):
        times[rule.available(index, num_clients=5, seed=4)] += 1
    assert times[0] == 0
    assert times[4] == 2000
    for client in (1, 2, 3):
        assert stats.binomtest(int(times[client]), 2000, probabilities[client]).pvalue > SURPRISE


def test_beta_probabilities_follow_their_law_and_stay_for_all_rounds() -> None:
    rule = BernoulliBeta(2.0, 3.0)
    probabilities = rule.probabilities(num_clients=3000, seed=5)
    assert stats.kstest(probabilities, stats.beta(2.0, 3.0).cdf).pvalue > SURPRISE
    same = Bernoulli(probabilities)
    for index in (0, 3):
        ours = rule.available(index, num_clients=3000, seed=5)
        assert np.array_equal(ours, same.available(index, num_clients=3000, seed=5))


@pytest.mark.parametrize(
    "probability", [-0.1, 1.1, float("nan"), [0.5, 2.0], [0.5, float("nan")], "often", [[0.5]], None, [None]]
)
def test_probabilities_that_are_none_are_refused(probability: object) -> None:
    with pytest.raises(InvalidArgumentError, match="probability"):
        Bernoulli(probability)  # type: ignore[arg-type]


def test_bernoulli_rules_compare_by_value_and_keep_their_own_copy() -> None:
    values = np.array([0.2, 0.4])
    rule = Bernoulli(values)
    values[0] = 1.0
    assert rule == Bernoulli([0.2, 0.4])
    assert hash(rule) == hash(Bernoulli([0.2, 0.4]))
    assert rule != Bernoulli(0.2)
    assert rule != 0.2
    with pytest.raises(InvalidArgumentError, match="2 entries for 3 clients"):
        rule.available(0, num_clients=3, seed=0)
    with pytest.raises(InvalidArgumentError, match="2 entries for 24 clients"):
        rule.bind(COUNTS)


def replayed(p_on: float, p_off: float, num_clients: int, seed: int, last: int) -> list[np.ndarray]:
    """Play a chain from its first round to the last, one coin after the other."""
    state = _coins(seed, 0, num_clients) < p_on / (p_on + p_off)
    states = [state]
    for index in range(1, last + 1):
        coins = _coins(seed, index, num_clients)
        state = np.array([
            coin < (1.0 - p_off if on else p_on) for coin, on in zip(coins, state, strict=True)
        ])  # fmt: skip
        states.append(state)
    return states


@pytest.mark.parametrize(
    ("p_on", "p_off"),
    [
        (0.1, 0.3),
        (0.9, 0.8),
        (1.0, 1.0),
        (0.4, 0.6),
        (0.02, 0.01),
        (1.0, 0.5),
        (0.5, 1.0),
        (0.7, 0.0),
        (1.0, 0.0),
    ],
)
def test_looking_back_finds_what_replaying_finds(p_on: float, p_off: float) -> None:
    expected = replayed(p_on, p_off, 40, seed=6, last=50)
    for index in (50, 0, 1, 49, 7, 8, 9, 30, 2):
        fresh = Markov(p_on, p_off).available(index, num_clients=40, seed=6)
        assert np.array_equal(fresh, np.flatnonzero(expected[index]))
    kept = Markov(p_on, p_off)
    for index in (*range(10), 45, 46, 3, 50):
        continued = kept.available(index, num_clients=40, seed=6)
        assert np.array_equal(continued, np.flatnonzero(expected[index]))


@pytest.mark.parametrize("index", [0, 1, 40])
def test_markov_is_stationary_and_moves_at_its_rates(index: int) -> None:
    clients, rule = 20_000, Markov(0.2, 0.3)
    before, after = (
        np.isin(np.arange(clients), rule.available(r, num_clients=clients, seed=8))
        for r in (index, index + 1)
    )
    assert stats.binomtest(int(before.sum()), clients, 0.4).pvalue > SURPRISE
    came = int((after & ~before).sum())
    gone = int((before & ~after).sum())
    assert stats.binomtest(came, int((~before).sum()), 0.2).pvalue > SURPRISE
    assert stats.binomtest(gone, int(before.sum()), 0.3).pvalue > SURPRISE


def test_a_far_round_of_a_markov_rule_needs_no_replay() -> None:
    first = Markov(0.1, 0.3).available(10**15, num_clients=1000, seed=0)
    assert 150 < first.size < 350


@pytest.mark.parametrize(
    ("p_on", "p_off"), [(0.0, 0.5), (-0.1, 0.5), (0.5, 1.1), (float("nan"), 0.5), (0.5, "a")]
)
def test_chains_that_cannot_be_are_refused(p_on: float, p_off: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"p_on=|p_off="):
        Markov(p_on, p_off)


@pytest.mark.parametrize("fraction", [0, -0.1, 1.1, float("nan"), "half", None])
def test_shares_that_cannot_be_are_refused(fraction: float) -> None:
    with pytest.raises(InvalidArgumentError, match="fraction="):
        UniformFraction(fraction)


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, -1), (float("inf"), 1), ("a", 1)])
def test_beta_laws_that_cannot_be_are_refused(a: float, b: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"a=|b="):
        BernoulliBeta(a, b)


def test_a_trace_repeats_or_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"round": 3, "clients": [5, 1]}\n\n{"clients": [], "round": 4}\n')
    assert rounds(Trace.load(path), [3, 4, 5, 6, 0]) == [[1, 5], [], [1, 5], [], []]
    once = Trace.load(path, repeat=False)
    assert rounds(once, [3, 4]) == [[1, 5], []]
    for outside in (2, 5):
        with pytest.raises(
            InvalidArgumentError, match=f"round_index={outside}, but the trace holds rounds 3 to 4"
        ):
            once.available(outside, num_clients=CLIENTS, seed=0)


def test_a_trace_with_unknown_clients_is_refused_up_front() -> None:
    trace = Trace.from_rounds([[0], [24], [1]])
    with pytest.raises(
        InvalidArgumentError, match="num_clients=24, but the trace names client 24 in round 1"
    ):
        trace.available(0, num_clients=CLIENTS, seed=0)
    with pytest.raises(InvalidArgumentError, match="names client 24"):
        trace.bind(COUNTS)


@every_rule
def test_any_rule_can_be_recorded_saved_and_read_back(rule: Availability, tmp_path: Path) -> None:
    trace = Trace.record(rule, range(2, 9), num_clients=CLIENTS, seed=7)
    trace.save(tmp_path / "t.jsonl")
    again = Trace.load(tmp_path / "t.jsonl")
    assert again == trace
    assert rounds(again, list(range(2, 9))) == rounds(rule, list(range(2, 9)), seed=7)


def test_traces_compare_by_value() -> None:
    trace = Trace.from_rounds([[0, 1]])
    assert trace == Trace.from_rounds([[1, 0]])
    assert trace != Trace.from_rounds([[0, 1]], first_round=1)
    assert trace != Trace.from_rounds([[0, 1]], repeat=False)
    assert trace != Trace.from_rounds([[0, 2]])
    assert trace != "trace"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Trace.from_rounds([]), "rounds is empty"),
        (lambda: Trace.from_rounds([[0], [1, 1]]), r"rounds\[1\] holds client 1 twice"),
        (lambda: Trace.from_rounds([[-1]]), r"rounds\[0\]\[0\]=-1"),
        (lambda: Trace.from_rounds([[0]], first_round=-1), "first_round=-1"),
        (lambda: Trace.record(Always(), [1, 3], num_clients=2, seed=0), "must count up by one"),
        (lambda: Trace.record(Always(), [], num_clients=2, seed=0), "rounds is empty"),
    ],
)
def test_recordings_that_cannot_be_are_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidArgumentError, match=message):
        make()


GOOD = '{"round": 0, "clients": [1]}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no rounds"),
        ("\n\n", "has no rounds"),
        (GOOD + "0,1,2\n", "line 2 is not a line such as"),
        (GOOD + '{"round": 1, "clients": [1', "line 2 is not a line such as"),
        (GOOD + '{"round": 1, "round": 2, "clients": []}', "line 2 .*a key stands twice"),
        (GOOD + "[1, 2]", 'line 2 must have "round" and "clients"'),
        (GOOD + '{"round": 1}', 'line 2 must have "round" and "clients"'),
        (GOOD + '{"round": 1, "clients": [], "extra": 1}', "nothing else"),
        (GOOD + '{"round": 2, "clients": []}', "line 2: round 2 stands where round 1 must"),
        (GOOD + '{"round": 0, "clients": []}', "line 2: round 0 stands where round 1 must"),
        ('{"round": -1, "clients": []}', "line 1: round=-1"),
        ('{"round": 1.0, "clients": []}', "line 1: round=1.0"),
        ('{"round": true, "clients": []}', "line 1: round=True"),
        (GOOD + '{"round": 1, "clients": [3, 3]}', "line 2: clients holds client 3 twice"),
        (GOOD + '{"round": 1, "clients": [-3]}', r"line 2: clients\[0\]=-3"),
        (GOOD + '{"round": 1, "clients": [1.5]}', "line 2: clients must be a list of whole numbers"),
        (GOOD + '{"round": 1, "clients": [true]}', "line 2: clients must be a list of whole numbers"),
        (GOOD + '{"round": 1, "clients": ["1"]}', "line 2: clients must be a list of whole numbers"),
        (GOOD + '{"round": 1, "clients": 3}', "line 2: clients must be a list of whole numbers"),
        (GOOD + '{"round": 1, "clients": [NaN]}', "line 2: clients must be a list of whole numbers"),
        (GOOD + '{"round": 1, "clients": [99999999999999999999]}', "line 2: clients"),
        (GOOD + '{"round": 1, "clients": [' + "9" * 5000 + "]}", "line 2"),
        (GOOD + "[" * 100_000, "line 2 is not a line such as"),
    ],
)
def test_hostile_traces_are_refused_by_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(content)
    with pytest.raises(InvalidArgumentError, match=message):
        Trace.load(path)


def test_a_trace_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(InvalidArgumentError, match="is no text"):
        Trace.load(path)
    for path in (tmp_path, "a\0b", 3, "x" * 5000):
        with pytest.raises(InvalidArgumentError, match="is no file"):
            Trace.load(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("always", Always()),
        ("uniform:0.3", UniformFraction(0.3)),
        (" uniform : 0.3 ", UniformFraction(0.3)),
        ("class-quota:9,3", ClassQuota((9, 3))),
        ("class-quota:1,2,3", ClassQuota((1, 2, 3))),
        ("bernoulli:0.3", Bernoulli(0.3)),
        ("bernoulli-beta:1,3", BernoulliBeta(1.0, 3.0)),
        ("markov:0.1,0.3", Markov(0.1, 0.3)),
    ],
)
def test_names_become_rules(text: str, rule: Availability) -> None:
    assert parse_availability(text) == rule


def test_files_become_rules(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(GOOD)
    (tmp_path / "p.txt").write_text("0.5\n1\n\n0\n")
    np.save(tmp_path / "p.npy", np.array([0.5, 1, 0]))
    assert parse_availability(f"trace:{tmp_path / 't.jsonl'}") == Trace.from_rounds([[1]])
    assert parse_availability(f"trace-once:{tmp_path / 't.jsonl'}") == Trace.from_rounds([[1]], repeat=False)
    for name in ("p.txt", "p.npy"):
        assert parse_availability(f"bernoulli-file:{tmp_path / name}") == Bernoulli([0.5, 1.0, 0.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("always:3", "nothing may follow 'always'"),
        ("uniform", "lacks its value; write 'uniform:FRACTION'"),
        ("uniform:", "lacks its value"),
        ("uniform:a", "which is 1 number"),
        ("uniform:0.1,0.2", "which is 1 number"),
        ("uniform:2", "fraction=2.0"),
        ("class-quota:9;3", "needs, which is numbers separated by commas"),
        ("class-quota:9,3.5", "3.5 in '9,3.5' is no whole number"),
        ("bernoulli:nan", "probability=nan"),
        ("markov:0.1", "which is 2 numbers"),
        ("trace:nowhere.jsonl", "path='nowhere.jsonl' is no file"),
        ("bernoulli-file:nowhere.npy", "is no file"),
        ("", "availability='' must be a name"),
        (None, "availability=None must be a name"),
    ],
)
def test_what_names_no_rule_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_availability(text)


@pytest.mark.parametrize("content", [b"0.5,often", b"\xff\xfe", b"0.5 1.5"])
def test_hostile_probabilities_are_refused(tmp_path: Path, content: bytes) -> None:
    for name in ("p.txt", "p.npy"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidArgumentError, match="probabilit"):
            parse_availability(f"bernoulli-file:{tmp_path / name}")
    np.save(tmp_path / "p.npy", np.array([0.5j]))
    with pytest.raises(InvalidArgumentError, match="holds no probabilities"):
        parse_availability(f"bernoulli-file:{tmp_path / 'p.npy'}")


def test_an_unknown_name_brings_the_nearest_to_mind() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'markov'"):
        parse_availability("markow:0.1,0.2")


def test_the_list_has_a_line_for_every_name() -> None:
    assert len(list_availabilities()) == 9
    assert all(0 < len(summary) < 110 for summary in list_availabilities().values())


def test_a_million_clients_are_no_trouble() -> None:
    size = 10**6
    for text in ("uniform:0.3", "bernoulli:0.3", "markov:0.1,0.3"):
        clients = parse_availability(text).available(1, num_clients=size, seed=0)
        assert 200_000 < clients.size < 320_000
