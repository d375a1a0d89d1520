"""Datasets as their users have them, decoded once into resident arrays.

>>> dataset = load_dataset("digits")
>>> partition = split(dataset, "dirichlet-hsu", num_clients=20, alpha=0.5, seed=0)
>>> partition.label_counts(dataset.train.labels).shape
(20, 10)
"""

from fedcbs.data._arrays import from_arrays
from fedcbs.data._dataset import Dataset, Examples
from fedcbs.data._load import known_datasets, load_dataset
from fedcbs.data._local import find_dataset, get_dataset, published_datasets
from fedcbs.data._split import split
from fedcbs.data._torch import from_torch

__all__ = [
    "Dataset",
    "Examples",
    "find_dataset",
    "from_arrays",
    "from_torch",
    "get_dataset",
    "known_datasets",
    "load_dataset",
    "published_datasets",
    "split",
]
