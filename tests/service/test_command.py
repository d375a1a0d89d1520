"""``fedcbs selector`` as its operator types it."""

from __future__ import annotations

import dataclasses
import http.server
import json
import signal
import threading
from pathlib import Path

import pytest

from fedcbs.cli import main
from fedcbs.errors import NotAllowedError, ProtocolError, ServiceError
from fedcbs.private import mode_of
from fedcbs.service import LocalSelector, SelectorClient
from tests.service.parties import NAMES, OPTIONS, Service, counts


def test_certificates_then_serve_then_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificates = str(tmp_path / "certs")
    assert main(["selector", "certificates", "--out", certificates]) == 0
    assert "server.pem" in capsys.readouterr().err
    assert main(["selector", "certificates", "--out", certificates]) == 0
    assert "nothing is missing" in capsys.readouterr().err
    service = Service(tmp_path, "--certificates", certificates, "--mode", "plain")
    try:
        url = service.start()
        status = ["selector", "status", "--url", url, "--certificates", certificates]
        assert main(status) == 0
        assert "answers; it has no federations" in capsys.readouterr().out
        with SelectorClient(url, certificates=certificates) as client:
            # All that a federation needs, from one process that offers one mode.
            with pytest.raises(NotAllowedError, match="it offers plain"):
                client.create("sealed", dataclasses.replace(OPTIONS, mode="sealed"))
            client.create("plain", OPTIONS)
            keys = client.public_keys("plain")
            for name, row in zip(NAMES[:5], counts()[:5], strict=True):
                client.put_upload("plain", name, mode_of(keys).encrypt(keys, row, name))
            assert len(client.select("plain", round_index=1, cohort_size=2, available=NAMES[:5]).clients) == 2
        assert main([*status, "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["federations"]
        assert (found["name"], found["clients"], found["last_round"]) == ("plain", 5, 1)
        assert main(status) == 0
        assert found["fingerprint"] in capsys.readouterr().out
        assert service.end(signal.SIGTERM) == 0
    finally:
        service.stop()
    assert main(status) == 2
    assert "does not answer" in capsys.readouterr().err


def test_rotate_and_backup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, copy = str(tmp_path / "state"), str(tmp_path / "copy")
    with LocalSelector(state) as link:
        before = link.create("demo", dataclasses.replace(OPTIONS, mode="sealed")).fingerprint
    assert main(["selector", "backup", "--state", state, "--out", copy]) == 0
    assert main(["selector", "rotate", "--state", state, "demo"]) == 0
    assert main(["selector", "backup", "--state", state, "--out", copy]) == 2
    assert "exists" in capsys.readouterr().err
    with LocalSelector(state) as link, LocalSelector(copy) as old:
        assert old.status("demo").fingerprint == before != link.status("demo").fingerprint


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["serve", "--insecure", "--host", "0.0.0.0"],
        ["serve", "--certificates", "nowhere"],
        ["serve", "--insecure", "--mode", "plane"],
        ["serve", "--insecure", "--port", "70000"],
        ["serve", "--insecure", "--state", "nowhere/state"],
        ["rotate", "demo", "--state", "nowhere"],
        ["backup", "--state", "nowhere", "--out", "x"],
        ["status", "--url", "nowhere"],
        ["certificates", "--out", "x", "--name", "ca"],
    ],
)
def test_mistakes_get_one_line_and_leave_nothing(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["selector", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_address_of_something_else_is_told_as_such() -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404 if "missing" in self.path else 200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with SelectorClient(f"http://127.0.0.1:{server.server_port}", patience=0) as client:
                with pytest.raises(ServiceError, match="makes no sense"):
                    client.health()
                with pytest.raises(ServiceError, match="status 404"):
                    client.status("missing")
                with pytest.raises(ProtocolError, match="no public"):
                    client.public_keys("x")
        finally:
            server.shutdown()
            thread.join()
