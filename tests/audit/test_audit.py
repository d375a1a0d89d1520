from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedcbs.audit import (
    CostSetting,
    Recovery,
    audit,
    audit_gram,
    load_opened_gram,
    noised,
    qcid_under_noise,
)
from fedcbs.audit._score import named_by_insiders, named_by_totals, score
from fedcbs.cli import main
from fedcbs.errors import InvalidArgumentError
from fedcbs.imbalance import DenseGram, FactorGram
from fedcbs.laboratory import balance
from fedcbs.private import make_mode
from tests.audit.populations import dirichlet

QUICK = CostSetting(rounds=3)


def found(counts: np.ndarray, order: list[int]) -> Recovery:
    return Recovery("lattice", counts[:, order].astype(float), consistent=True)


class TestScores:
    counts = np.array([[5, 0, 1], [0, 7, 0], [2, 2, 9], [4, 4, 4]])

    def test_the_order_of_classes_does_not_count(self) -> None:
        result = score(found(self.counts, [2, 0, 1]), self.counts)
        assert result is not None
        assert (result.exact, result.close, result.mean_distance) == (1.0, 1.0, 0.0)

    def test_distances_are_total_variation(self) -> None:
        off = self.counts.copy()
        off[0] = [3, 2, 1]
        result = score(Recovery("spectral", off.astype(float), consistent=False), self.counts)
        assert result is not None
        assert result.exact == result.close == 0.75
        assert result.mean_distance == pytest.approx(2 / 6 / 4)

    def test_one_insider_names_the_classes_in_which_its_counts_stand_alone(self) -> None:
        recovered = found(self.counts, [1, 2, 0])
        by = [
            named_by_insiders(recovered, self.counts, self.counts, 1, seed=0, who=np.array([who]))
            for who in range(4)
        ]
        assert [naming.classes for naming in by] == [1.0, pytest.approx(1 / 3), pytest.approx(1 / 3), 0.0]
        # Client 3 has as much of each class, so it is known without any name.
        assert [naming.clients for naming in by] == [1.0, pytest.approx(1 / 3), pytest.approx(1 / 3), 0.0]

    def test_more_insiders_name_more(self) -> None:
        counts = dirichlet(60, 10, 0.3)
        recovered = found(counts, list(np.random.default_rng(0).permutation(10)))
        shares = [named_by_insiders(recovered, counts, counts, k, seed=0).classes for k in (1, 2, 3, 5)]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0

    def test_totals_name_classes_that_differ_in_them(self) -> None:
        assert named_by_totals(found(self.counts, [2, 0, 1]), self.counts).classes == 1.0
        about = np.array([10, 14, 15])
        assert named_by_totals(found(self.counts, [2, 0, 1]), self.counts, about).classes == 1.0
        level = np.array([[3, 0], [0, 3]])
        assert named_by_totals(found(level, [1, 0]), level).classes == 0.0


def test_without_noise_all_are_recovered_and_a_made_up_client_names_them() -> None:
    report = audit(dirichlet(80, 10, 0.3), noises=(), setting=QUICK)
    row = report.rows[0]
    assert row.unique
    assert row.best.exact == row.sybil.classes == row.sybil.clients == 1.0
    assert 0 < row.insiders[1].classes < row.insiders[5].classes <= 1
    assert "80 of 80" in report.sentences()[0]


def test_noise_hides_more_the_more_there_is_of_it() -> None:
    report = audit(
        dirichlet(100, 10, 0.2), noises=[f"laplace:epsilon={e}" for e in (2, 0.3, 0.03)], setting=QUICK
    )
    distances = [row.best.mean_distance for row in report.rows]
    assert distances == sorted(distances)
    assert distances[0] == 0.0
    assert [row.best.exact for row in report.rows][1:] < [0.5, 0.5, 0.5]
    assert report.rows[-1].best.close < 0.2
    assert report.rows[-1].qcid["fedcbs-exact"] > report.rows[0].qcid["fedcbs-exact"]


def test_the_same_seed_gives_the_same_audit() -> None:
    counts = dirichlet(40, 6, 0.3)
    first, again, other = (
        audit(counts, noises=["gaussian:rho=0.05"], setting=QUICK, seed=seed).to_dict() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_noise_costs_what_the_laboratory_measures() -> None:
    """Without noise, the QCID is that of the laboratory's rounds."""
    counts = dirichlet(60, 10, 0.3)
    setting = CostSetting(rounds=5)
    ours = qcid_under_noise(counts, None, setting, seed=3)
    theirs = balance(
        list(setting.selectors), counts, rounds=5, seeds=1, seed=3, availability=setting.availability
    )
    for name, values in ours.items():
        assert np.allclose(values, theirs[name].qcid[0])


def test_selectors_see_noised_counts_only() -> None:
    counts = dirichlet(60, 10, 0.3)
    seen = noised(counts, "laplace:epsilon=0.05", seed=0)
    assert not np.array_equal(seen, counts)
    blurred = qcid_under_noise(counts, "laplace:epsilon=0.02", CostSetting(rounds=20))["fedcbs-exact"]
    clear = qcid_under_noise(counts, None, CostSetting(rounds=20))["fedcbs-exact"]
    assert blurred.mean() > 2 * clear.mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selectors": ("pow-d",)}, "losses"),
        ({"selectors": ()}, "selectors is empty"),
        ({"cohort_size": 0}, "cohort_size=0"),
        ({"rounds": 0}, "rounds=0"),
        ({"availability": "never"}, "availability"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        CostSetting(**options)  # type: ignore[arg-type]


def test_clients_without_examples_are_no_subject() -> None:
    with pytest.raises(InvalidArgumentError, match="no examples"):
        audit(np.zeros((3, 2), dtype=np.int64))


class TestGram:
    def test_a_gram_alone_tells_whether_it_can_be_solved(self) -> None:
        solved = audit_gram(FactorGram(dirichlet(60, 10, 0.3)))
        assert (solved.lattice, solved.unique, solved.rank) == (True, True, 10)
        assert "no other solution" in solved.sentences()[0]
        few = audit_gram(FactorGram(dirichlet(4, 10, 5.0)))
        assert not few.lattice
        assert "Neither attack" in few.sentences()[0]

    def test_what_the_private_protocol_opens_is_what_is_audited(self, tmp_path: Path) -> None:
        counts = dirichlet(20, 5, 0.5)
        for mode_name, kind in (("plain", DenseGram), ("sealed", np.ndarray)):
            mode = make_mode(mode_name, num_classes=5)
            keys = mode.keygen()
            uploads = {f"c{n:02}": mode.encrypt(keys.public, row, f"c{n:02}") for n, row in enumerate(counts)}
            path = tmp_path / f"{mode_name}.npz"
            mode.open(keys.secret, mode.gram(keys.public, uploads)).save(path)
            assert isinstance(load_opened_gram(path), kind)

    def test_the_number_of_classes_may_be_missing(self, tmp_path: Path) -> None:
        counts = dirichlet(20, 5, 0.5)
        path = tmp_path / "gram.npz"
        np.savez(
            path, gram=counts @ counts.T, num_examples=counts.sum(axis=1), clients=np.arange(20).astype(str)
        )
        for given, expected in ((None, 5), (7, 7)):
            gram = load_opened_gram(path, num_classes=given)
            assert isinstance(gram, DenseGram)
            assert gram.num_classes == expected
            assert audit_gram(gram).lattice

    @pytest.mark.parametrize("content", [b"", b"PK\3\4nothing", b"\x93NUMPY"])
    def test_other_files_are_refused(self, content: bytes, tmp_path: Path) -> None:
        path = tmp_path / "gram.npz"
        path.write_bytes(content)
        with pytest.raises(InvalidArgumentError, match="holds no opened Gram"):
            load_opened_gram(path)
        np.savez(path, matrix=np.eye(2))
        with pytest.raises(InvalidArgumentError, match="no array 'gram'"):
            load_opened_gram(path)


class TestCommand:
    def test_findings_come_as_words_json_and_a_figure(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        np.savetxt(tmp_path / "c.csv", dirichlet(30, 4, 0.5), fmt="%d", delimiter=",")
        files = ["--plot", str(tmp_path / "f.png"), "--out", str(tmp_path / "o.json")]
        arguments = ["audit", str(tmp_path / "c.csv"), "--rounds", "3", "--noise", "laplace:epsilon=0.5"]
        assert main([*arguments, *files]) == 0
        out, err = capsys.readouterr()
        assert "30 of 30 clients" in out
        assert "laplace:epsilon=0.5" in out
        assert "figure:" in err
        assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
        assert main([*arguments, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed == json.loads((tmp_path / "o.json").read_text())
        assert printed["rows"][0]["lattice"]["exact"] == 1.0
        assert printed["settings"]["file"].endswith("c.csv")

    def test_a_dataset_is_partitioned(self, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["--dataset", "digits", "--partition", "shards:2", "--clients", "20"]
        assert main(["audit", *arguments, "--noise", "none", "--rounds", "2", "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert (printed["num_clients"], len(printed["rows"])) == (20, 1)

    def test_an_opened_gram_is_audited_alone(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        counts = dirichlet(20, 5, 0.5)
        path = str(tmp_path / "gram.npz")
        np.savez(path, gram=counts @ counts.T, num_examples=counts.sum(axis=1))
        assert main(["audit", path]) == 0
        assert "whoever opens it can compute them" in capsys.readouterr().out
        assert main(["audit", path, "--plot", str(tmp_path / "x.png")]) == 2

    @pytest.mark.parametrize(
        "arguments",
        [
            ["missing.csv"],
            ["--noise", "laplace"],
            ["--selectors", "oort"],
            ["--out", "missing/folder/x.json"],
            ["--plot", "x.jpeg"],
            ["x.csv", "--alpha", "0.1"],
            ["--dataset", "digits", "--classes", "3"],
        ],
    )
    def test_mistakes_get_one_line(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["audit", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
