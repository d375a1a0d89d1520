"""How label statistics reach the selector: through the privacy mode of the run, as they would in a deployment.

Every client makes its upload, the server computes on uploads, the selector opens the result: the same functions with the same
bytes as between three machines. Only what the selector would have then does the simulated one have. Aggregation weighs
clients by their true sizes, which they send with their updates.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _random
from fedcbs.errors import InvalidArgumentError, ProtocolError, UnknownNameError
from fedcbs.private import DEFAULT_MAX_EXAMPLES, Mode, OpenedGram, known_modes, make_mode, parse_noise
from fedcbs.selectors import Information, LabelInformation, Need, Selector

__all__ = ["STATISTICS", "Statistics", "check_privacy", "collect_statistics"]

STATISTICS = frozenset({Need.GRAM, Need.LABEL_COUNTS, Need.NUM_EXAMPLES})
"""Needs that label statistics answer."""

BYTES_OF_COUNT = 8
LARGER = (1_000_000, 2**24 - 1)
FILE, TRAFFIC = "statistics.npz", "statistics-traffic.json"


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Statistics:
    """Label statistics as the selector has them.

    Parameters
    ----------
    information
        Answers for them.
    bytes_up, bytes_down
        What went from clients and to them to collect it, once, before the first round.
    """

    information: Information
    bytes_up: int = 0
    bytes_down: int = 0


def check_privacy(selector: Selector[Any], mode: str, noise: str) -> None:
    """Refuse a mode that is not known, or that does not tell what the selector needs; before any work."""
    if mode not in known_modes():
        raise UnknownNameError("privacy.mode", mode, known_modes())
    if noise:
        parse_noise(noise)
    if mode == "plain" or Need.LABEL_COUNTS not in selector.needs:
        return
    if not make_mode(mode, num_classes=2).hides_order:
        raise InvalidArgumentError(
            f"privacy.mode={mode!r} tells inner products of label counts, but selector={selector.name!r} needs the label"
            " counts themselves; choose mode 'plain' or 'sealed', or a selector that needs the Gram"
        )


def collect_statistics(
    label_counts: NDArray[np.int64],
    selector: Selector[Any],
    *,
    mode: str = "plain",
    noise: str = "",
    seed: int = 0,
    folder: Path | None = None,
) -> Statistics:
    """Collect what a selector needs of the clients' label counts, in a privacy mode.

    Parameters
    ----------
    label_counts
        Clients x classes.
    selector
        Whose needs decide what is collected; nothing is, where it needs nothing.
    mode
        ``plain``: clients send their label counts as they are; or another of :func:`fedcbs.private.known_modes`.
    noise
        Noise that each client adds to its counts first, such as ``laplace:epsilon=1``.
    seed
        Fixes the noise, and the order of classes that mode ``sealed`` shows.
    folder
        Where what was opened is kept, so that a run that goes on does not compute it again.
    """
    check_privacy(selector, mode, noise)
    needs = selector.needs & STATISTICS
    if not needs:
        return Statistics(LabelInformation(label_counts))
    if noise:
        label_counts = parse_noise(noise).apply(label_counts, _random.generator("noise", seed))
    if not needs & {Need.GRAM, Need.LABEL_COUNTS}:
        return Statistics(LabelInformation(label_counts), bytes_up=BYTES_OF_COUNT * len(label_counts))
    if mode == "plain":
        return Statistics(LabelInformation(label_counts), bytes_up=BYTES_OF_COUNT * label_counts.size)
    most = int(label_counts.sum(axis=1).max())
    bound = next((b for b in (DEFAULT_MAX_EXAMPLES, *LARGER) if most <= b), most)
    return _opened(
        make_mode(mode, num_classes=label_counts.shape[1], max_examples=bound), label_counts, seed, folder
    )


def _opened(mode: Mode, label_counts: NDArray[np.int64], seed: int, folder: Path | None) -> Statistics:
    """Run the protocol, or take what an earlier process opened."""
    kept = None if folder is None else folder / FILE
    if kept is not None and kept.exists():
        bytes_up, bytes_down = json.loads((kept.parent / TRAFFIC).read_text())
        return Statistics(OpenedGram.load(kept).information(), bytes_up, bytes_down)
    opened, bytes_up, bytes_down = _protocol(mode, label_counts, seed)
    if opened.refused:
        client, reason = next(iter(opened.refused.items()))
        raise ProtocolError(f"privacy.mode={mode.name!r} refused {client} ({reason}); choose another mode")
    if kept is not None:
        (kept.parent / TRAFFIC).write_text(json.dumps([bytes_up, bytes_down]))
        opened.save(kept)
    return Statistics(opened.information(), bytes_up, bytes_down)


def _protocol(mode: Mode, label_counts: NDArray[np.int64], seed: int) -> tuple[OpenedGram, int, int]:
    """All three parties; returns what the selector opens, and the bytes from clients and to them."""
    keys = mode.keygen()
    secret = _random.generator("class secret", seed).bytes(32) if mode.hides_order else None
    width = len(str(len(label_counts)))
    uploads = {
        f"client-{number:0{width}}": mode.encrypt(
            keys.public, row, f"client-{number:0{width}}", class_secret=secret
        )
        for number, row in enumerate(label_counts)
    }
    masks = mode.masks(keys.secret, _seeds(mode, uploads)) if mode.exchanges_masks else None
    opened = mode.open(keys.secret, mode.gram(keys.public, uploads, masks))
    sent = sum(map(len, uploads.values()))
    return opened, sent, len(uploads) * len(_key_of_clients(keys.public.parts))


def _key_of_clients(parts: Mapping[str, bytes]) -> bytes:
    """The part of the public keys that a client encrypts with; the others are the server's."""
    return parts["box"] if "box" in parts else parts.get("encryption", b"")


def _seeds(mode: Mode, uploads: dict[str, bytes]) -> dict[str, bytes]:
    seed = getattr(mode, "seed", bytes)  # what of an upload the selector may see
    return {name: seed(upload) for name, upload in uploads.items()}
