"""Label statistics that nobody but the selector can open, and noise for those that the selector should not know either."""

from fedcbs.private._accountant import Accountant, parse_budget
from fedcbs.private._noise import DiscreteGaussian, DiscreteLaplace, Noise, parse_noise

__all__ = ["Accountant", "DiscreteGaussian", "DiscreteLaplace", "Noise", "parse_budget", "parse_noise"]
