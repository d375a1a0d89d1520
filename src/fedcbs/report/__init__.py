"""Reports on any runs: one page to look at, figures for papers, a table of all rounds.

A page needs the extra ``report``, a figure the extra ``plot``, a table nothing more.
"""

from fedcbs.report._groups import Group, group_runs
from fedcbs.report._remarks import Remarks
from fedcbs.report._run import RunData, find_runs, load_run, load_runs
from fedcbs.report._write import FORMATS, write_report

__all__ = [
    "FORMATS",
    "Group",
    "Remarks",
    "RunData",
    "find_runs",
    "group_runs",
    "load_run",
    "load_runs",
    "write_report",
]
