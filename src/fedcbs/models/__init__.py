"""Models by name: those of the paper, and any module by its import path."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    from fedcbs.errors import MissingExtraError

    raise MissingExtraError("torch", extra="train", purpose="training") from error

from fedcbs.models._registry import default_model, known_models, make_model

__all__ = ["default_model", "known_models", "make_model"]
