"""The rounds of one federation: what was answered, and how to go back."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from fedcbs.errors import ConflictError
from fedcbs.service._codec import arrays_from_bytes, arrays_to_bytes, cohort_from_json, cohort_to_json
from fedcbs.service._link import Cohort

__all__ = ["KEPT_STATES", "Ledger"]

KEPT_STATES = 50
"""Rounds that a server can go back; for each the state before it is kept."""


class Ledger:
    """Rounds of a federation, inside a transaction.

    Parameters
    ----------
    connection
        The database, with a transaction under way.
    federation
        Its name.
    """

    def __init__(self, connection: sqlite3.Connection, federation: str) -> None:
        self._run, self._federation = connection.execute, federation

    @property
    def last_round(self) -> int:
        """The last round that was answered; 0 before the first."""
        (last,) = self._run(
            "SELECT max(round_index) FROM rounds WHERE federation=?", (self._federation,)
        ).fetchone()
        return int(last or 0)

    def answered(self, round_index: int) -> tuple[str, Cohort] | None:
        """The digest of a round's request, and its answer."""
        row = self._run(
            "SELECT digest, answer FROM rounds WHERE federation=? AND round_index=?",
            (self._federation, round_index),
        ).fetchone()
        return None if row is None else (row["digest"], cohort_from_json(json.loads(row["answer"])))

    def state(self) -> dict[str, Any] | None:
        """The selector's state; None before the first round."""
        (saved,) = self._run("SELECT state FROM federations WHERE name=?", (self._federation,)).fetchone()
        return None if saved is None else arrays_from_bytes(saved)

    def record(self, round_index: int, digest: str, cohort: Cohort, state: dict[str, Any]) -> None:
        """Write down an answer and the state after it, and keep the state before it."""
        answer = json.dumps(cohort_to_json(cohort)).encode()
        self._run(
            "INSERT INTO rounds (federation, round_index, digest, answer, before)"
            " SELECT name, ?, ?, ?, coalesce(state, x'') FROM federations WHERE name=?",
            (round_index, digest, answer, self._federation),
        )
        self._save(state)
        self._run(
            "UPDATE rounds SET before=NULL WHERE federation=? AND round_index <="
            " (SELECT round_index FROM rounds WHERE federation=? ORDER BY round_index DESC LIMIT 1 OFFSET ?)",
            (self._federation, self._federation, KEPT_STATES),
        )

    def observed(self, round_index: int) -> str | None:
        """The digest of what was told about a round; None where nothing was."""
        row = self._run(
            "SELECT observed FROM rounds WHERE federation=? AND round_index=?",
            (self._federation, round_index),
        ).fetchone()
        return None if row is None else row["observed"]

    def observe(self, round_index: int, digest: str, state: dict[str, Any]) -> None:
        """Write down that the outcome of a round was told, and the state after it."""
        self._run(
            "UPDATE rounds SET observed=?, observed_after=? WHERE federation=? AND round_index=?",
            (digest, self.last_round, self._federation, round_index),
        )
        self._save(state)

    def rewind(self, round_index: int) -> None:
        """Forget a round and all that was answered or told since."""
        first = self._run(
            "SELECT round_index, before FROM rounds WHERE federation=? AND round_index>=? ORDER BY round_index LIMIT 1",
            (self._federation, round_index),
        ).fetchone()
        if first is None:
            return
        if first["before"] is None:
            raise ConflictError(
                f"round {round_index} is more than {KEPT_STATES} rounds back, and its state is no longer kept;"
                " make a new federation, or go on from a later round"
            )
        self._run("UPDATE federations SET state=? WHERE name=?", (first["before"] or None, self._federation))
        self._run(
            "DELETE FROM rounds WHERE federation=? AND round_index>=?",
            (self._federation, first["round_index"]),
        )
        self._run(
            "UPDATE rounds SET observed=NULL, observed_after=NULL WHERE federation=? AND observed_after>=?",
            (self._federation, first["round_index"]),
        )

    def _save(self, state: dict[str, Any]) -> None:
        self._run("UPDATE federations SET state=? WHERE name=?", (arrays_to_bytes(state), self._federation))
