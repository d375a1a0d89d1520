from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509

from fedcbs.errors import InvalidArgumentError
from fedcbs.service import Listen, make_certificates


def test_keys_are_private_and_what_is_there_stays(tmp_path: Path) -> None:
    first = make_certificates(tmp_path, hosts=["selector.test", "::1"], callers=["server"])
    assert {path.name for path in first} == {
        f"{name}.{kind}" for name in ("ca", "selector", "server") for kind in ("pem", "key")
    }
    before = {path: path.read_bytes() for path in first}
    second = make_certificates(tmp_path, callers=["server", "hospital-1"])
    assert [path.name for path in second] == ["hospital-1.key", "hospital-1.pem"]
    assert all(path.read_bytes() == content for path, content in before.items())
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*.key")} == {0o600}
    names = x509.load_pem_x509_certificate((tmp_path / "selector.pem").read_bytes()).extensions
    hosts = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(host.value) for host in hosts] == ["selector.test", "::1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"callers": ["ca"]}, "name='ca'"),
        ({"callers": ["../x"]}, "no name of a client"),
        ({"callers": ["x" * 65]}, "at most 64"),
        ({"hosts": []}, "hosts is empty"),
        ({"hosts": ["ü"]}, "host='ü'"),
        ({"days": 0}, "days=0"),
    ],
)
def test_wrong_wishes_are_refused_before_anything_is_written(
    options: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make_certificates(tmp_path / "new", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_without_the_authoritys_key_nothing_is_added(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(InvalidArgumentError, match="not its key"):
        make_certificates(tmp_path, callers=["another"])


class TestListen:
    def test_plain_http_is_for_the_loopback_interface_only(self) -> None:
        assert Listen(insecure=True).context() is None
        with pytest.raises(InvalidArgumentError, match="not the loopback interface"):
            Listen("0.0.0.0", insecure=True)
        with pytest.raises(InvalidArgumentError, match="--insecure"):
            Listen()

    def test_a_key_that_others_can_read_is_refused(self, tmp_path: Path) -> None:
        make_certificates(tmp_path)
        (tmp_path / "selector.key").chmod(0o644)
        with pytest.raises(InvalidArgumentError, match="chmod 600"):
            Listen(certificates=tmp_path).context()

    def test_damaged_certificates_are_refused(self, tmp_path: Path) -> None:
        make_certificates(tmp_path)
        (tmp_path / "selector.pem").write_text("nothing")
        with pytest.raises(InvalidArgumentError, match="cannot be used"):
            Listen(certificates=tmp_path).context()
