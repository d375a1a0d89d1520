"""The selectors that come with fedcbs, in the order in which they are listed."""

from __future__ import annotations

from typing import Any

from fedcbs.selectors._base import Selector
from fedcbs.selectors._baselines import Everyone, Uniform
from fedcbs.selectors._fedcbs import FedCBSExact, FedCBSPaper, FedCBSSharp

__all__ = ["BUILTIN"]

BUILTIN: tuple[type[Selector[Any]], ...] = (Everyone, Uniform, FedCBSPaper, FedCBSSharp, FedCBSExact)
