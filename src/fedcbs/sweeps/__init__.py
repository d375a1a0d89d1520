"""Sweeps: many runs over seeds, selectors and any value of the configuration, on all cores or on a cluster.

A sweep that was stopped goes on where it was; a run that fails takes no other along.
"""

from fedcbs.sweeps._executor import Executor, Here
from fedcbs.sweeps._job import Job, Outcome, Progress
from fedcbs.sweeps._plan import Plan, parse_values
from fedcbs.sweeps._processes import Processes
from fedcbs.sweeps._ray import RayCluster
from fedcbs.sweeps._sweep import local, run_jobs

__all__ = [
    "Executor",
    "Here",
    "Job",
    "Outcome",
    "Plan",
    "Processes",
    "Progress",
    "RayCluster",
    "local",
    "parse_values",
    "run_jobs",
]
