"""The private protocol: the selector gets inner products of label counts, and the server sees none of them.

>>> from fedcbs.private import make_mode
>>> mode = make_mode("plain", num_classes=3)
>>> keys = mode.keygen()
>>> uploads = {name: mode.encrypt(keys.public, row, name) for name, row in {"a": [3, 0, 1], "b": [0, 2, 2]}.items()}
>>> opened = mode.open(keys.secret, mode.gram(keys.public, uploads))
>>> opened.clients, opened.gram.tolist(), opened.num_examples.tolist()
(('a', 'b'), [[10, 2], [2, 8]], [4, 4])
"""

from fedcbs.private._accountant import Accountant, parse_budget
from fedcbs.private._fhe_plan import forget
from fedcbs.private._keys import Keys, PublicKeys, SecretKeys
from fedcbs.private._mode import DEFAULT_MAX_EXAMPLES, Mode, Work
from fedcbs.private._noise import DiscreteGaussian, DiscreteLaplace, Noise, parse_noise
from fedcbs.private._opened import OpenedGram
from fedcbs.private._registry import known_modes, make_mode, mode_of
from fedcbs.private._rotate import rotate
from fedcbs.private._uploads import UploadFolder

__all__ = [
    "DEFAULT_MAX_EXAMPLES",
    "Accountant",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Keys",
    "Mode",
    "Noise",
    "OpenedGram",
    "PublicKeys",
    "SecretKeys",
    "UploadFolder",
    "Work",
    "forget",
    "known_modes",
    "make_mode",
    "mode_of",
    "parse_budget",
    "parse_noise",
    "rotate",
]
