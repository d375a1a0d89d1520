"""How far a cohort's pooled labels are from balanced, and the Gram matrix that tells without the labels."""

from fedcbs.imbalance._builder import BLOCK, CohortBuilder, qcid_resolution
from fedcbs.imbalance._gram import DenseGram, FactorGram, Gram, RowsOnDemandGram
from fedcbs.imbalance._measures import kl_divergence, label_shares, qcid, qcid_from_gram, qcid_of_pooled

__all__ = [
    "BLOCK",
    "CohortBuilder",
    "DenseGram",
    "FactorGram",
    "Gram",
    "RowsOnDemandGram",
    "kl_divergence",
    "label_shares",
    "qcid",
    "qcid_from_gram",
    "qcid_of_pooled",
    "qcid_resolution",
]
