"""What the selector of a federation could find out about its clients, tried on the federation's own label counts.

The paper's selector learns the Gram matrix of the clients' label counts, and its Theorem 2 says that this fixes the counts
only up to an orthogonal map. Label counts are whole numbers, so the map is nearly always a mere reordering of the classes:
:func:`audit` computes it. It needs the extra ``audit``.
"""

from fedcbs.audit._audit import NOISES, attack, audit, audit_gram
from fedcbs.audit._cost import CostSetting, noised, qcid_under_noise
from fedcbs.audit._opened import load_opened_gram
from fedcbs.audit._recovery import Recovery
from fedcbs.audit._report import AuditReport, AuditRow, GramReport
from fedcbs.audit._score import Naming, Score

__all__ = [
    "NOISES",
    "AuditReport",
    "AuditRow",
    "CostSetting",
    "GramReport",
    "Naming",
    "Recovery",
    "Score",
    "attack",
    "audit",
    "audit_gram",
    "load_opened_gram",
    "noised",
    "qcid_under_noise",
]
