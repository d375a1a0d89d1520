"""Training of a whole cohort at once: a compiled path, a generic one, and the plain loop as the reference."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    from fedcbs.errors import MissingExtraError

    raise MissingExtraError("torch", extra="train", purpose="training") from error

from fedcbs.engine._base import Engine
from fedcbs.engine._evaluation import Evaluation
from fedcbs.engine._make import make_engine
from fedcbs.engine._work import LocalRule, Plan, Trained, Weights

__all__ = ["Engine", "Evaluation", "LocalRule", "Plan", "Trained", "Weights", "make_engine"]
