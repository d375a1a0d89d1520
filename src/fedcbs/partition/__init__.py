"""Who holds which examples: partition schemes on label counts, and partitions of concrete examples.

A scheme draws label counts (clients x classes) from class totals; no example is touched, so a million clients take
seconds. :func:`deal` turns label counts into a :class:`Partition`, which says which examples each client holds.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(10, size=5000)
>>> partition = DirichletHsu(alpha=0.5).split(labels, 20, rng)
>>> len(partition), int(partition.num_examples[0])
(20, 250)
"""

from fedcbs.partition._cases import Case1, Case2
from fedcbs.partition._classes import ClassesPerClient
from fedcbs.partition._classwise import DirichletClasswise
from fedcbs.partition._deal import deal
from fedcbs.partition._fedcor import DirichletFedCor
from fedcbs.partition._given import GivenCounts, load_label_counts
from fedcbs.partition._hsu import DirichletHsu
from fedcbs.partition._iid import IID
from fedcbs.partition._owner import by_owner
from fedcbs.partition._partition import Partition
from fedcbs.partition._registry import list_partitions, parse_partition
from fedcbs.partition._scheme import PartitionScheme, balanced_totals
from fedcbs.partition._shards import Shards

__all__ = [
    "IID",
    "Case1",
    "Case2",
    "ClassesPerClient",
    "DirichletClasswise",
    "DirichletFedCor",
    "DirichletHsu",
    "GivenCounts",
    "Partition",
    "PartitionScheme",
    "Shards",
    "balanced_totals",
    "by_owner",
    "deal",
    "list_partitions",
    "load_label_counts",
    "parse_partition",
]
