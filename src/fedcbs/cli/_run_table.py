"""What the commands print about a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcbs.runs import Run

__all__ = ["bytes_text", "seconds_text", "summary_rows"]


def summary_rows(found: Run) -> Iterator[tuple[str, str]]:
    """Yield what to tell of a run, as pairs of a title and a text."""
    config, summary = found.config, found.summary or {}
    yield "selector", config["selector"]["name"]
    yield (
        "algorithm",
        f"{config['training']['local']}+{config['server']['rule']}, {config['training']['engine']} engine",
    )
    yield "rounds", str(summary.get("rounds"))
    if summary.get("best_accuracy") is not None:
        yield (
            "accuracy",
            f"{summary['final_accuracy']:.4f}, best {summary['best_accuracy']:.4f} (round {summary['best_round']})",
        )
    for target, reached in summary.get("targets", {}).items():
        yield f"accuracy {target}", "not reached" if reached is None else f"after {reached} rounds"
    if summary.get("qcid_mean") is not None:
        yield "QCID", f"{100 * summary['qcid_mean']:.3f}e-2 on average"
    yield (
        "coverage",
        f"{summary.get('coverage', 0.0):.1%} of clients, Gini {summary['participation']['gini']:.3f}",
    )
    yield "traffic", f"{bytes_text(summary['bytes_up'])} up, {bytes_text(summary['bytes_down'])} down"
    if summary.get("failed"):
        yield "failed", f"{summary['failed']} answers"
    if summary.get("simulated_seconds"):
        yield "simulated", seconds_text(summary["simulated_seconds"])
    yield "time", _time(summary["seconds"])


def _time(seconds: dict[str, Any]) -> str:
    total = seconds.get("total", 0.0)
    parts = [
        f"{name} {seconds[name] / total:.0%}"
        for name in ("train", "evaluate", "select", "checkpoint")
        if total and name in seconds
    ]
    return f"{seconds_text(total)} ({', '.join(parts)})" if parts else seconds_text(total)


def bytes_text(number: float) -> str:
    """Bytes for people.

    >>> bytes_text(1_234_567)
    '1.23 MB'
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            break
        number /= 1000
    return f"{number:.3g} {unit}"


def seconds_text(seconds: float) -> str:
    """Seconds for people.

    >>> seconds_text(3.14159), seconds_text(4000)
    ('3.14 s', '1 h 7 min')
    """
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
