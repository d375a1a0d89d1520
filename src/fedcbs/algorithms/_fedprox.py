"""FedProx: a proximal term holds clients near the global model.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020: each client minimises
``cross-entropy + mu / 2 * |w - w_global|**2``, so ``mu (w - w_global)`` is added to every gradient. With ``mu=0`` it is plain SGD.
The paper lets stragglers do fewer steps; a deadline with ``late="partial"`` is that.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.algorithms._base import LocalMethod, LocalState, Monitor
from fedcbs.engine import LocalRule

__all__ = ["FedProx"]


@final
@dataclasses.dataclass(frozen=True)
class FedProx(LocalMethod):
    """SGD with a proximal term.

    Parameters
    ----------
    mu
        Strength of the pull towards the global model. The paper tries 0.001, 0.01, 0.1 and 1.
    """

    name: ClassVar[str] = "fedprox"
    summary: ClassVar[str] = "SGD with a pull towards the global model"
    paper: ClassVar[str] = "Li et al. 2020 (MLSys), FedProx"
    mu: float = 0.01

    def __post_init__(self) -> None:
        _checks.real(self.mu, "mu", minimum=0)

    def rule(
        self,
        base: LocalRule,
        state: LocalState,  # noqa: ARG002
        clients: NDArray[np.int64],  # noqa: ARG002
        monitor: Monitor | None,  # noqa: ARG002
    ) -> LocalRule:
        """Return `base` with the proximal term."""
        return dataclasses.replace(base, proximal=self.mu)
