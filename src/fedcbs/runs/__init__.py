"""Runs: a configuration in, a directory out, and going on after whatever stopped one.

>>> from fedcbs.runs import RunConfig, simulate
>>> config = RunConfig.of(dataset="digits", selector="uniform", rounds=2)
>>> [record.round for record in simulate(config)]
[1, 2]
"""

from fedcbs.runs._build import Built, algorithm_summaries, build
from fedcbs.runs._compare import Comparison, Standing, compare
from fedcbs.runs._config import (
    AvailabilitySection,
    DataSection,
    EvaluationSection,
    ModelSection,
    PartitionSection,
    PrivacySection,
    RunConfig,
    RunSection,
    SelectorSection,
    ServerSection,
    TrainingSection,
)
from fedcbs.runs._options import parse_assignment
from fedcbs.runs._read import Run, read_run
from fedcbs.runs._run import resume, simulate, start
from fedcbs.runs._summary import summarise

__all__ = [
    "AvailabilitySection",
    "Built",
    "Comparison",
    "DataSection",
    "EvaluationSection",
    "ModelSection",
    "PartitionSection",
    "PrivacySection",
    "Run",
    "RunConfig",
    "RunSection",
    "SelectorSection",
    "ServerSection",
    "Standing",
    "TrainingSection",
    "algorithm_summaries",
    "build",
    "compare",
    "parse_assignment",
    "read_run",
    "resume",
    "simulate",
    "start",
    "summarise",
]
