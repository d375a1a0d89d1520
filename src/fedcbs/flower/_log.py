"""Log lines go through a logger below Flower's own, so that they appear among the lines of the run."""

from __future__ import annotations

import logging

__all__ = ["LOG"]

LOG = logging.getLogger("flwr.fedcbs")
