"""Short texts such as ``uniform:0.3`` that name a rule and give its numbers."""

from __future__ import annotations

from fedcbs.errors import InvalidArgumentError

__all__ = ["spec_integers", "spec_numbers", "split_spec"]


def split_spec(text: object, argument: str) -> tuple[str, str | None]:
    """Return the name before the first colon and what follows it, if anything does.

    >>> split_spec("markov:0.1,0.3", "availability")
    ('markov', '0.1,0.3')
    >>> split_spec("always", "availability")
    ('always', None)
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgumentError(f"{argument}={text!r} must be a name such as 'name' or 'name:value'")
    name, colon, rest = text.strip().partition(":")
    return name.strip(), rest.strip() if colon else None


def spec_numbers(values: str | None, argument: str, form: str, *, count: int | None = None) -> list[float]:
    """Return the comma-separated numbers of a spec; `form` is the spelling that the message shows.

    >>> spec_numbers("0.1,0.3", "availability", "markov:P_ON,P_OFF", count=2)
    [0.1, 0.3]
    >>> spec_numbers("0.1", "availability", "markov:P_ON,P_OFF", count=2)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: availability: '0.1' is not what 'markov:P_ON,P_OFF' needs, which is 2 numbers
    """
    wanted = "numbers separated by commas" if count is None else f"{count} number{'s' * (count != 1)}"
    problem = InvalidArgumentError(
        f"{argument}: {values or ''!r} is not what {form!r} needs, which is {wanted}"
    )
    try:
        numbers = [float(part) for part in (values or "").split(",")]
    except ValueError:
        raise problem from None
    if count is not None and len(numbers) != count:
        raise problem
    return numbers


def spec_integers(values: str | None, argument: str, form: str, *, count: int | None = None) -> list[int]:
    """Return the comma-separated whole numbers of a spec.

    >>> spec_integers("9,3", "availability", "class-quota:Q,Q")
    [9, 3]
    >>> spec_integers("9,3.5", "availability", "class-quota:Q,Q")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: availability: 3.5 in '9,3.5' is no whole number; write 'class-quota:Q,Q'
    """
    numbers = spec_numbers(values, argument, form, count=count)
    for number in numbers:
        if not number.is_integer():
            raise InvalidArgumentError(
                f"{argument}: {number:g} in {values!r} is no whole number; write {form!r}"
            )
    return [int(number) for number in numbers]
