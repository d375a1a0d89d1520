"""What a strategy remembers from round to round (moments, clipping norms), found without knowing the strategy.

Whatever attribute changed since the run began is the strategy's memory; what did not is an option, and stays as the
operator has it now. A strategy that keeps other things than numbers and arrays gives them itself, by the pair of methods
``state_dict()`` and ``load_state_dict(state)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flwr.serverapp.strategy import Strategy

from fedcbs.flower._errors import FederationStateError
from fedcbs.flower._log import LOG
from fedcbs.flower._plain import digest
from fedcbs.flower._strategy import layers, own_class

__all__ = ["Memory"]

KEPT_OTHERWISE = ("_fedcbs", "accountant")


class Memory:
    """Saves and restores what a strategy and those that it wraps remember.

    Parameters
    ----------
    strategy
        As it is before the first round.
    """

    def __init__(self, strategy: object) -> None:
        self._layers = list(layers(strategy))
        self._before = [self._digests(layer) for layer in self._layers]
        for layer, before in zip(self._layers, self._before, strict=True):
            _warn_of_others(layer, [name for name, told in before.items() if told is None])

    def save(self) -> list[dict[str, Any]]:
        """What changed, as plain data, one mapping a layer."""
        return [self._saved(layer, before) for layer, before in zip(self._layers, self._before, strict=True)]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Put it back."""
        names = [_name(layer) for layer in self._layers]
        before = [one["class"] for one in saved]
        if names != before:
            raise FederationStateError(
                f"the checkpoint is of the strategy {' in '.join(before)}, but this run has {' in '.join(names)}; use "
                "the same one, or start in another folder"
            )
        for layer, one in zip(self._layers, saved, strict=True):
            for name, value in one["attributes"].items():
                setattr(layer, name, value)
            if one["own"] is not None:
                layer.load_state_dict(one["own"])
            _restore_accountant(layer, one["releases"])

    def _saved(self, layer: Any, before: Mapping[str, str | None]) -> dict[str, Any]:
        now = self._digests(layer)
        changed = [name for name, told in now.items() if told is not None and told != before.get(name)]
        return {
            "class": _name(layer),
            "attributes": {name: getattr(layer, name) for name in changed},
            "own": layer.state_dict() if hasattr(layer, "state_dict") else None,
            "releases": _releases(layer),
        }

    @staticmethod
    def _digests(layer: object) -> dict[str, str | None]:
        return {
            name: digest(value)
            for name, value in vars(layer).items()
            if name not in KEPT_OTHERWISE and not isinstance(value, Strategy) and not callable(value)
        }


def _warn_of_others(layer: object, names: Sequence[str]) -> None:
    """Say what cannot be saved, where the strategy does not do it itself."""
    if names and not hasattr(layer, "state_dict"):
        LOG.warning(
            "%s keeps %s, which are neither numbers nor arrays: a resumed run has them as they are made; if they "
            "remember anything, give the strategy state_dict() and load_state_dict(state)",
            _name(layer),
            ", ".join(names),
        )


def _name(layer: object) -> str:
    return own_class(layer).__name__


def _releases(layer: Any) -> int:
    """How many releases a strategy with an accountant of differential privacy has made."""
    accountant = getattr(layer, "accountant", None)
    return 0 if accountant is None else int(accountant.get_privacy_spent().num_releases)


def _restore_accountant(layer: Any, releases: int) -> None:
    """Let the accountant count again what was released before: privacy spent stays spent."""
    accountant = getattr(layer, "accountant", None)
    if accountant is None:
        if releases:
            raise FederationStateError(
                f"the checkpoint counts {releases} private releases, but the strategy has no accountant now; give it one"
            )
        return
    from flwr.serverapp import GaussianPrivacyEvent

    event = GaussianPrivacyEvent(
        noise_multiplier=layer.noise_multiplier,
        sample_size=layer.num_sampled_clients,
        population_size=accountant.config.population_size,
    )
    for _ in range(releases - _releases(layer)):
        accountant.compose(event)
