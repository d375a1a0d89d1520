"""Datasets as their users have them, decoded once into resident arrays."""

from fedcbs.data._dataset import Dataset, Examples

__all__ = ["Dataset", "Examples"]
