from __future__ import annotations

import base64
import dataclasses
import http.client
import json
import random
import re
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedcbs.errors import (
    AnswersNeededError,
    ConflictError,
    FedCBSError,
    InvalidArgumentError,
    NotAllowedError,
    ProtocolError,
    RowNeededError,
    ServiceError,
    UnknownNameError,
    UnreachableError,
    UploadError,
)
from fedcbs.private import mode_of
from fedcbs.private._fhe import Fhe
from fedcbs.service import LocalSelector, SelectorClient, make_certificates
from fedcbs.service._codec import array_to_json
from tests.service.parties import NAMES, OPTIONS, Service, counts, gram

CALLERS = ("server", "other", NAMES[0], "stranger")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder, hosts=["localhost", "127.0.0.1"], callers=CALLERS)
    return folder


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[Service]:
    options = ["--certificates", str(certificates), "--largest-upload", "1", "--largest-request", "3"]
    options += ["--server", "server", "--server", "other", "--report-qcid", "exact"]
    service = Service(tmp_path_factory.mktemp("service"), *options, "--requests-per-second", "2000")
    service.start()
    yield service
    service.stop()


@pytest.fixture
def client(service: Service, certificates: Path) -> Iterator[SelectorClient]:
    with caller("server", service, certificates) as client:
        yield client


def caller(name: str, service: Service, certificates: Path) -> SelectorClient:
    return SelectorClient(
        f"https://localhost:{service.port}", certificates=certificates, name=name, patience=1
    )


def answer(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/health")
    return connection.getresponse().status


@pytest.fixture
def federation(client: SelectorClient, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W", "-", request.node.name)[:60]
    client.create(name, OPTIONS)
    client.put_statistics(name, gram(client.public_keys(name)))
    return name


def test_a_remote_selector_is_a_local_one(client: SelectorClient, federation: str) -> None:
    local = LocalSelector()
    local.create(federation, OPTIONS)
    local.put_statistics(federation, gram(local.public_keys(federation)))
    for index in range(1, 4):
        answers = [
            link.select(federation, round_index=index, cohort_size=5, available=NAMES[index:])
            for link in (client, local)
        ]
        assert dataclasses.asdict(answers[0]) == dataclasses.asdict(answers[1])
        for link in (client, local):
            link.observe(federation, index, answered=answers[0].clients)
    assert client.status(federation) == local.status(federation)
    assert federation in client.federations()
    assert client.health()


def test_weights_answers_and_estimates_travel(client: SelectorClient) -> None:
    local = LocalSelector()
    options = dataclasses.replace(OPTIONS, selector="ou")
    for link in (client, local):
        link.create("estimates", options)
        link.put_statistics("estimates", gram(link.public_keys("estimates")))

    def ask(_need: object, clients: tuple[str, ...]) -> list[float]:
        return [float((int(name[-2:]) + 7 * index) % 30 + 1) for name in clients]

    estimated: set[str] = set()
    for index in range(1, 6):
        found, expected = (
            link.select("estimates", round_index=index, cohort_size=5, available=NAMES, ask=ask)
            for link in (client, local)
        )
        assert found.clients == expected.clients
        assert found.asked == expected.asked == {"update-norms": 30}
        assert found.estimated == expected.estimated
        for name in ("weights", "estimated_updates", "estimated_weights"):
            assert np.array_equal(getattr(found, name), getattr(expected, name))
        estimated |= set(found.estimated)
        updates = np.random.default_rng(index).random((len(found.clients), 3))
        for link in (client, local):
            link.observe("estimates", index, answered=found.clients, updates=updates)
    assert estimated


def test_rows_travel_on_demand(client: SelectorClient) -> None:
    client.create("rows", dataclasses.replace(OPTIONS, mode="fhe"))
    keys = client.public_keys("rows")
    mode = mode_of(keys)
    assert isinstance(mode, Fhe)
    uploads = {name: mode.encrypt(keys, row, name) for name, row in zip(NAMES[:3], counts()[:3], strict=True)}
    with mode.rows(keys, uploads) as server:
        assert client.put_rows("rows", server.setup()).clients == NAMES[:3]
        request = {"round_index": 1, "cohort_size": 2, "available": NAMES[:3]}
        with pytest.raises(RowNeededError):
            client.select("rows", **request)  # type: ignore[arg-type]
        assert len(client.select("rows", fetch_row=server.row, **request).clients) == 2  # type: ignore[arg-type]


def test_errors_arrive_as_they_were(client: SelectorClient, federation: str) -> None:
    client.select(federation, round_index=2, cohort_size=5, available=NAMES)
    with pytest.raises(ConflictError, match="comes after round 2"):
        client.select(federation, round_index=1, cohort_size=5, available=NAMES)
    with pytest.raises(InvalidArgumentError, match="only 1 clients are available"):
        client.select(federation, round_index=3, cohort_size=5, available=NAMES[:1])
    with pytest.raises(UnknownNameError, match="federation='nothing'"):
        client.status("nothing")
    with pytest.raises(ProtocolError):
        client.put_statistics(federation, b"nothing")
    with pytest.raises(UploadError) as refused:
        client.put_upload(federation, "mallory", b"nothing")
    assert refused.value.client == "mallory"
    client.create("asks", dataclasses.replace(OPTIONS, selector="pow-d"))
    client.put_statistics("asks", gram(client.public_keys("asks")))
    with pytest.raises(AnswersNeededError) as question:
        client.select("asks", round_index=1, cohort_size=5, available=NAMES)
    assert question.value.need == "losses"


def test_public_keys_keep_their_fingerprint(client: SelectorClient, federation: str) -> None:
    assert client.public_keys(federation).fingerprint == client.status(federation).fingerprint


class TestPermissions:
    def test_a_federation_belongs_to_who_made_it(
        self, service: Service, certificates: Path, federation: str
    ) -> None:
        with caller("other", service, certificates) as other:
            for call in (
                lambda: other.status(federation),
                lambda: other.select(federation, round_index=1, cohort_size=2, available=NAMES),
                lambda: other.observe(federation, 1, answered=()),
                lambda: other.put_statistics(federation, b""),
                lambda: other.masks(federation, {}),
                lambda: other.remove_upload(federation, NAMES[1]),
            ):
                with pytest.raises(NotAllowedError, match="'other'"):
                    call()
            with pytest.raises(ConflictError):
                other.create(federation, OPTIONS)
            assert federation not in other.federations()
            assert other.public_keys(federation).fingerprint  # public is public

    def test_names_that_are_not_allowed_make_no_federation(
        self, service: Service, certificates: Path
    ) -> None:
        stranger = caller("stranger", service, certificates)
        with stranger, pytest.raises(NotAllowedError, match="--server"):
            stranger.create("mine", OPTIONS)

    def test_a_client_brings_its_own_upload_and_no_other(
        self, service: Service, certificates: Path, federation: str
    ) -> None:
        with caller(NAMES[0], service, certificates) as own:
            keys = own.public_keys(federation)
            uploads = [mode_of(keys).encrypt(keys, counts()[n], NAMES[n]) for n in (0, 1)]
            own.put_upload(federation, NAMES[0], uploads[0])
            with pytest.raises(NotAllowedError):
                own.put_upload(federation, NAMES[1], uploads[1])
            with pytest.raises(UploadError):
                own.put_upload(federation, NAMES[0], uploads[1])

    def test_without_a_certificate_nobody_gets_in(self, service: Service, certificates: Path) -> None:
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        connection = http.client.HTTPSConnection("localhost", service.port, context=context, timeout=20)
        with pytest.raises((OSError, http.client.HTTPException)):
            answer(connection)
        connection.close()

    def test_certificates_of_others_are_told_apart(
        self, service: Service, certificates: Path, tmp_path: Path
    ) -> None:
        make_certificates(tmp_path)
        deceived = caller("server", service, tmp_path)
        with deceived, pytest.raises(UnreachableError, match=r"ca\.pem"):
            deceived.health()
        (tmp_path / "ca.pem").write_bytes((certificates / "ca.pem").read_bytes())
        forged = caller("server", service, tmp_path)
        with forged, pytest.raises((NotAllowedError, UnreachableError)):
            forged.health()

    def test_plain_http_gets_nothing(self, service: Service) -> None:
        connection = http.client.HTTPConnection("localhost", service.port, timeout=20)
        with pytest.raises((OSError, http.client.HTTPException)):
            answer(connection)
        connection.close()


class TestHostileBytes:
    def raw(
        self, service: Service, certificates: Path, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        connection = http.client.HTTPSConnection("localhost", service.port, context=context, timeout=20)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"null",
            b"[" * 100_000,
            b'{"cohort_size": 1e999, "available": ["client-01"]}',
            b'{"cohort_size": "2", "available": ["client-01"]}',
            b'{"cohort_size": 2, "available": "client-01"}',
            b'{"cohort_size": 2, "available": [1]}',
            b'{"cohort_size": 2, "available": ["\\ud800", "client-01"]}',
            b'{"cohort_size": 2, "available": ["client-01", "client-02"], "answers": []}',
            b'{"cohort_size": 2, "available": ["client-01", "client-02"], "answers": {"x": {"clients": [], "values": []}}}',
            b"\xff\xfe",
        ],
        ids=str,
    )
    def test_requests_that_make_no_sense_are_refused(
        self, body: bytes, service: Service, certificates: Path, client: SelectorClient
    ) -> None:
        client.create("hostile", OPTIONS)
        if not client.status("hostile").clients:
            client.put_statistics("hostile", gram(client.public_keys("hostile")))
        status, content = self.raw(service, certificates, "POST", "/v1/federations/hostile/rounds/1", body)
        assert 400 <= status < 500, content
        assert json.loads(content)["message"]
        assert client.status("hostile").last_round == 0

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/", 404),
            ("GET", "/v1/federations/x/rounds/1", 405),
            ("POST", "/v1/federations/x/rounds/-1", 404),
            ("POST", "/v1/federations/x/rounds/" + "9" * 4000, 404),
            ("GET", "/v1/federations/%00", 404),
            ("GET", "/v1/federations/" + "x" * 5000, 404),
            ("PUT", "/v1/federations/a%2Fb", 404),
            ("PUT", "/v1/federations/.b", 400),
        ],
    )
    def test_strange_paths_lead_nowhere(
        self, method: str, path: str, status: int, service: Service, certificates: Path
    ) -> None:
        found, content = self.raw(service, certificates, method, path, b'{"num_classes": 2}')
        assert found == status, content

    def test_what_is_too_large_is_refused_before_it_is_read(
        self, service: Service, certificates: Path, federation: str
    ) -> None:
        path = f"/v1/federations/{federation}"
        status, content = self.raw(
            service, certificates, "PUT", f"{path}/statistics", b"", **{"Content-Length": str(2**40)}
        )
        assert (status, json.loads(content)["error"]) == (400, "InvalidArgumentError")
        pieces = (bytes(2**16) for _ in range(64))
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        connection = http.client.HTTPSConnection("localhost", service.port, context=context, timeout=20)
        try:  # of a length that nobody declared
            connection.request("PUT", f"{path}/uploads/x", pieces, encode_chunked=True)
            assert connection.getresponse().status == 400
        except (OSError, http.client.HTTPException):
            pass  # it hung up on us
        finally:
            connection.close()

    def test_noise_on_the_line_takes_nothing_down(
        self, service: Service, certificates: Path, client: SelectorClient
    ) -> None:
        rng = random.Random(0)
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        for number in range(30):
            with socket.create_connection(("localhost", service.port), timeout=20) as plain:
                if number % 2:
                    plain.sendall(rng.randbytes(200))
                    continue
                with context.wrap_socket(plain, server_hostname="localhost") as line:
                    line.sendall(
                        rng.choice([b"GET / HTTP/1.1\r\nA: ", b"\0" * 100, b"PUT /v1/ HTTP/9\r\n\r\n"])
                    )
                    line.sendall(rng.randbytes(200))
        assert client.health()

    def test_random_messages_are_refused(self, client: SelectorClient, federation: str) -> None:
        good = gram(client.public_keys(federation))
        rng = random.Random(1)
        for _ in range(40):
            bad = bytearray(good)
            for _ in range(rng.randint(1, 4)):
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            with pytest.raises(ProtocolError):
                client.put_statistics(federation, bytes(bad[: rng.randint(0, len(bad))]))
        assert client.select(federation, round_index=1, cohort_size=5, available=NAMES).clients

    @pytest.mark.parametrize(
        "value",
        [
            {"type": "|O", "shape": [1], "data": ""},
            {"type": "<f8", "shape": [2**62, 2**62], "data": ""},
            {"type": "<f8", "shape": [-1], "data": ""},
            {"type": "<f8", "shape": [1], "data": "AAAA"},
            {"type": "<f8", "shape": [1], "data": "not base64!"},
            {"type": "<f8"},
            "x",
            [["a"]],
            [[1], [1, 2]],
            array_to_json(np.array([np.nan])),
        ],
        ids=str,
    )
    def test_arrays_that_make_no_sense_are_refused(
        self, value: object, service: Service, certificates: Path, client: SelectorClient
    ) -> None:
        client.create("arrays", OPTIONS)
        client.put_statistics("arrays", gram(client.public_keys("arrays")))
        cohort = client.select("arrays", round_index=1, cohort_size=1, available=NAMES)
        body = {"answered": list(cohort.clients), "failed": [], "learnt": {"losses": value}}
        status, content = self.raw(
            service, certificates, "PUT", "/v1/federations/arrays/rounds/1", json.dumps(body).encode()
        )
        assert status == 400, content


def test_the_log_holds_neither_keys_nor_counts(service: Service, client: SelectorClient) -> None:
    client.create("logged", dataclasses.replace(OPTIONS, mode="sealed"))
    keys = client.public_keys("logged")
    client.put_upload("logged", NAMES[2], mode_of(keys).encrypt(keys, [11, 222, 333, 44, 55], NAMES[2]))
    assert client.select("logged", round_index=1, cohort_size=1, available=NAMES[2:3]).clients == (NAMES[2],)
    log = service.log()
    assert "PUT /v1/federations/logged" in log
    assert "222" not in re.sub(r"^\S+ \S+ ", "", log, flags=re.MULTILINE)
    for part in keys.parts.values():
        assert base64.b64encode(part).decode() not in log
        assert part.hex() not in log


def test_who_asks_too_fast_waits(tmp_path: Path) -> None:
    service = Service(tmp_path, "--insecure", "--requests-per-second", "1")
    try:
        url = service.start()
        hasty = SelectorClient(url, patience=0)
        with hasty, pytest.raises(ServiceError, match="too many requests"):
            all(hasty.health() for _ in range(400))
        with SelectorClient(url, patience=20) as patient:
            assert patient.health()
        assert service.end(signal.SIGTERM) == 0
    finally:
        service.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "ftp://x"}, "must be https://HOST:PORT"),
        ({"url": "https://x:99999"}, "must be https://HOST:PORT"),
        ({"url": "http://example.org"}, "in the clear"),
        ({"url": "https://localhost"}, "certificates: none are given"),
        ({"url": "https://localhost", "certificates": "nowhere"}, "is no file"),
        ({"url": "http://localhost", "patience": -1}, "patience"),
    ],
)
def test_wrong_addresses_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(FedCBSError, match=message):
        SelectorClient(**options)  # type: ignore[arg-type]
