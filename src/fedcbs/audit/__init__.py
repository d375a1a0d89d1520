"""What the selector of a federation could find out about its clients, tried on the federation's own label counts."""

from fedcbs.audit._cost import CostSetting, noised, qcid_under_noise

__all__ = ["CostSetting", "noised", "qcid_under_noise"]
