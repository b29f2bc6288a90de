"""Clients that offer another protocol with a request (`Upgrade: h2c`): the request is answered like any other."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.driving import PATIENCE_S
from tests.service.site import NEW, Process, everything_from, process_in

BODY = b'{"id":"a","x":[1,2,3]}'
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
JAVA = """
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Stock {
    public static void main(String[] given) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int number = 0; number < 2; number++) {
            String body = "{\\"id\\": \\"java-" + number + "\\", \\"x\\": [1, 2, 3]}";
            HttpRequest request = HttpRequest.newBuilder(URI.create(given[0]))
                .header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body)).build();
            HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(response.statusCode() + " " + response.body());
        }
    }
}
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with process_in(tmp_path_factory.mktemp("service")) as made:
        head = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        body = json.dumps(NEW).encode()
        assert _answer(made, head % len(body) + body).startswith(b"HTTP/1.1 201")
        yield made


def _answer(process: Process, *parts: bytes) -> bytes:
    with process.connect() as connection:
        for part in parts:
            connection.sendall(part)
        return everything_from(connection)


def _request(headers: bytes = b"", body: bytes = BODY, method: bytes = b"POST") -> bytes:
    path = b"/v1/tasks/fruit/decide"
    return b"%b %b HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: %d\r\n\r\n%b" % (
        method,
        path,
        headers,
        len(body),
        body,
    )


CLOSING = _request(b"Connection: close\r\n")
CHUNKED = (
    b"POST /v1/tasks/fruit/decide HTTP/1.1\r\nHost: localhost\r\n%bTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n"
) % (OFFER, BODY[:5], len(BODY) - 5, BODY[5:])


@pytest.mark.parametrize(
    "parts",
    [
        [_request(OFFER) + CLOSING],
        [bytes([one]) for one in _request(OFFER) + CLOSING],
        [_request(OFFER)[: -len(BODY)], BODY, CLOSING],
        [CHUNKED, CLOSING],
        [_request(b"Connection: Upgrade\r\nUpgrade: websocket\r\n"), CLOSING],
    ],
    ids=["at once", "byte by byte", "body apart", "chunked", "websocket"],
)
def test_a_body_that_comes_with_an_offer_is_read(process: Process, parts: list[bytes]) -> None:
    answer = _answer(process, *parts)
    heads = [line for line in answer.split(b"\r\n") if b"HTTP/1.1" in line]
    assert [head[-15:] for head in heads] == [b"HTTP/1.1 200 OK"] * 2
    assert answer.count(b'"id":"a","label"') == 2
    assert b"101" not in heads[0]


def test_many_offers_in_a_row_are_all_answered(process: Process) -> None:
    assert _answer(process, _request(OFFER) * 9 + CLOSING).count(b'"id":"a","label"') == 10


def test_a_get_with_an_offer_is_answered(process: Process) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + OFFER + b"\r\n"
    answer = _answer(process, request, CLOSING)
    assert b'{"status":"ok"}' in answer
    assert answer.count(b"HTTP/1.1 200") == 2


def test_what_is_no_http_ends_the_connection_after_an_offer_too(process: Process) -> None:
    answer = _answer(process, _request(OFFER), b"\x00\x01\x02\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1 200") == 1


def test_a_tunnel_is_refused(process: Process) -> None:
    assert _answer(process, b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 400")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
def test_curl_with_http2(process: Process) -> None:
    url = f"{process.url}/v1/tasks/fruit/decide"
    command = ["curl", "--silent", "--include", "--http2", "--data-binary", BODY.decode(), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if "the installed libcurl version does not support this" in done.stderr:
        pytest.skip("this curl has no HTTP/2")
    assert done.stdout.startswith("HTTP/1.1 200"), done
    assert '"id":"a"' in done.stdout


@pytest.mark.skipif(shutil.which("javac") is None, reason="a Java development kit is not here")
def test_a_stock_java_client(process: Process, tmp_path: Path) -> None:
    source = tmp_path / "Stock.java"
    source.write_text(JAVA)
    command = ["java", str(source), f"{process.url}/v1/tasks/fruit/decide"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    lines = done.stdout.splitlines()
    assert [line[:19] for line in lines] == ['200 {"id":"java-0",', '200 {"id":"java-1",'], done
