"""The tables and figures of the Fed-CBS paper, and some beyond it, as experiments that can be run, stopped and gone on with.

Each is declared in a short TOML file in ``fedcbs/experiments/definitions``; ``fedcbs experiment list`` lists them.
"""

from fedcbs.experiments._catalog import experiment, experiment_names, paper_numbers
from fedcbs.experiments._definition import SCALES, Experiment, Method, Scale, Setting
from fedcbs.experiments._jobs import Choice, core_seconds
from fedcbs.experiments._render import markdown, verdict
from fedcbs.experiments._run import Done, collect, jobs_of, run_experiment

__all__ = [
    "SCALES",
    "Choice",
    "Done",
    "Experiment",
    "Method",
    "Scale",
    "Setting",
    "collect",
    "core_seconds",
    "experiment",
    "experiment_names",
    "jobs_of",
    "markdown",
    "paper_numbers",
    "run_experiment",
    "verdict",
]
