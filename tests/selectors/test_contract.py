import pytest

from fedcbs.selectors import selector_types
from tests.selectors.contract import CHECKS, Check, SelectorType

CASES = [
    pytest.param(kind, check, id=f"{name}:{check.__name__}")
    for name, kind in selector_types().items()
    for check in CHECKS
]


@pytest.mark.parametrize(("kind", "check"), CASES)
def test_contract(kind: SelectorType, check: Check) -> None:
    check(kind)
