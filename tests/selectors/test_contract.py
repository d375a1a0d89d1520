import pytest
from hypothesis import given, settings

from fedcbs.selectors import parse_selector, selector_types
from tests.selectors.contract import (
    CHECKS,
    Check,
    Scene,
    SelectorType,
    assert_same_selection,
    expected_sizes,
    play,
    scenes,
)

CASES = [
    pytest.param(kind, check, id=f"{name}:{check.__name__}")
    for name, kind in selector_types().items()
    for check in CHECKS
]

VARIANTS = (
    "fedcbs-exact:panel=1:exploration=1.0",
    "fedcbs-exact:panel=2:sweeps=1:exponent=0.5",
    "fedcbs-exact:sweeps=0:exploration=0",
    "fedcbs-paper:exploration=0:slope=0.25",
    "divfl:method=lazy",
    "divfl:method=stochastic:weigh_by_represented=true",
    "clustered-similarity:distance=l1",
    "clustered-similarity:distance=l2",
    "fed-cucb:estimator=softmax:forgetting=1",
    "fedcs:deadline=20:overhead=1",
    "pow-d:num_candidates=100",
    "active-fl:drop=1:random_share=1",
    "active-fl:drop=1:random_share=0:sharpness=5",
    "ou:significance=0",
    "ou:significance=3:learn_decay=false:decay=1",
    "oort:exploration=0:least_exploration=0:cut_off=1",
    "oort:percentile=100:pacer_step=1:penalty=0",
    "rbcs-f:fairness=1:delay_weight=0",
)


@pytest.mark.parametrize(("kind", "check"), CASES)
def test_contract(kind: SelectorType, check: Check) -> None:
    check(kind)


@pytest.mark.parametrize("text", VARIANTS)
def test_every_choice_of_options_returns_cohorts(text: str) -> None:
    selector = parse_selector(text)

    @settings(max_examples=10)
    @given(scenes())
    def on_one(scene: Scene) -> None:
        for state, round_, selection in play(selector, scene):
            assert set(selection.cohort.tolist()) <= set(round_.available.tolist())
            assert len(selection.cohort) in expected_sizes(type(selector), round_)
            assert_same_selection(selector.select(state, round_), selection)

    on_one()
