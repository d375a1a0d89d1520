"""Options that describe a run; shared by commands that train."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcbs.runs import RunConfig

__all__ = ["OPTIONS", "add_run_options", "config_of", "names_of_run"]

OPTIONS: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = (
    (
        "what is learnt, and by whom",
        (
            (
                "dataset",
                "dataset",
                "NAME",
                "digits, mnist, fashion-mnist, cifar10, cifar100, femnist, hf:NAME, ... (default: digits)",
            ),
            ("data-dir", "data_dir", "DIR", "where its files are; where fedcbs keeps datasets unless said"),
            (
                "model",
                "model",
                "NAME",
                "mlp, cnn, leaf-cnn, linear, package.module:Callable; as suits the data unless said",
            ),
            (
                "partition",
                "partition",
                "SCHEME",
                "who holds which examples; `fedcbs partition --help` lists them (default: dirichlet-hsu)",
            ),
            ("alpha", "alpha", "A", "concentration of a Dirichlet scheme; 0.1 unless said"),
            (
                "clients",
                "clients",
                "N",
                "clients in the population; as the scheme says, else 200, or 100 of few examples",
            ),
            (
                "examples-per-client",
                "examples_per_client",
                "Q",
                "examples of each client, or their mean; all there are unless said",
            ),
        ),
    ),
    (
        "rounds",
        (
            ("rounds", "rounds", "R", "how many (default: 100)"),
            ("seed", "seed", "S", "fixes everything random (default: 0)"),
            (
                "availability",
                "availability",
                "RULE",
                "who can be picked; `fedcbs balance --help` lists the rules (default: uniform:0.3)",
            ),
            ("cohort-size", "cohort_size", "M", "clients a round has (default: 10)"),
            ("target", "targets", "A[,A...]", "accuracies of which to say when they were reached"),
            ("stop-at", "stop_at", "A", "end as soon as this accuracy is reached"),
            (
                "eval-every",
                "evaluation.every",
                "K",
                "evaluate after every K rounds; 1, or 5 with over 2,000 test examples, unless said",
            ),
        ),
    ),
    (
        "training",
        (
            (
                "algorithm",
                "algorithm",
                "NAME[+NAME]",
                "local method, server rule, or both: fedprox:mu=0.1+fedadam (default: plain+fedavg)",
            ),
            (
                "schedule",
                "schedule",
                "RULE",
                "equal-steps:EPOCHS, epochs:EPOCHS or steps:STEPS (default: equal-steps:5)",
            ),
            ("batch-size", "batch_size", "B", "examples in a batch (default: 50)"),
            (
                "learning-rate",
                "learning_rate",
                "LR",
                "of the first round; 0.01, or 0.1 on digits, unless said",
            ),
            ("engine", "engine", "NAME", "auto, kernel, generic or loop (default: auto)"),
            ("threads", "threads", "T", "threads of the engine; one a core unless said"),
            ("device", "device", "NAME", "cpu, cuda or auto (default: cpu)"),
        ),
    ),
)


def add_run_options(parser: argparse.ArgumentParser, *, without: tuple[str, ...] = ()) -> None:
    """Add the options that :func:`config_of` reads, all but those named."""
    for title, options in OPTIONS:
        group = parser.add_argument_group(title)
        for flag, key, metavar, text in options:
            if flag not in without:
                group.add_argument(f"--{flag}", dest=f"run:{key}", metavar=metavar, help=text)
    group = parser.add_argument_group("everything else")
    group.add_argument(
        "--config",
        metavar="FILE",
        help="TOML file, or the config.json of a run; options go before what it says",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any key of the configuration, such as training.momentum=0.9; may be repeated",
    )


def config_of(args: argparse.Namespace, **more: object) -> RunConfig:
    """Return the configuration that file, options and `--set` describe; the later go before the earlier."""
    from fedcbs.runs import RunConfig

    config = RunConfig.from_toml(args.config) if args.config else RunConfig()
    texts = {
        name.partition(":")[2]: value
        for name, value in vars(args).items()
        if name.startswith("run:") and value is not None
    }
    options: dict[str, Any] = {name: _value(name, text) for name, text in texts.items()}
    return config.with_options(options | more).with_texts(args.set)


def names_of_run(config: RunConfig) -> str:
    """Return a name for the directory of a run that was given none."""
    selector = config.selector.name.replace(":", "-").replace("=", "")
    dataset = config.data.dataset.replace(":", "-").replace("/", "-")
    return f"{dataset}-{selector}-seed{config.run.seed}"


def _value(name: str, text: str) -> object:
    """The value of an option: a number where it looks like one; names stay texts."""
    from fedcbs.runs import parse_assignment

    if name == "targets":
        return [_value("target", part) for part in text.split(",")]
    value = parse_assignment(f"value={text}")[1]
    return value if isinstance(value, int | float) and not isinstance(value, bool) else text
