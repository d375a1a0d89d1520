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

OURS = "_fedcbs"


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
        self._warned: set[str] = set()

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
        changed = {name: getattr(layer, name) for name in now if now[name] != before.get(name)}
        own = layer.state_dict() if hasattr(layer, "state_dict") else None
        for name in [name for name, value in changed.items() if digest(value) is None]:
            del changed[name]
            self._warn(layer, name, known=own is not None)
        return {
            "class": _name(layer),
            "attributes": changed,
            "own": own,
            "releases": _releases(layer),
        }

    def _warn(self, layer: object, name: str, *, known: bool) -> None:
        if not known and name not in self._warned:
            self._warned.add(name)
            LOG.warning(
                "%s.%s changes during the run but is no plain data, so a resumed run starts without it; give the "
                "strategy state_dict() and load_state_dict(state)",
                _name(layer),
                name,
            )

    @staticmethod
    def _digests(layer: object) -> dict[str, str | None]:
        return {
            name: digest(value)
            for name, value in vars(layer).items()
            if name != OURS and not isinstance(value, Strategy) and not callable(value)
        }


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
