r"""Tests a running t2t-server with many clients at once.

t2t-server --export_dir models/ende &
python scripts/load_test.py --model http://127.0.0.1:8501/v1/models/ende \
    --input sentences.txt --clients 50 --seconds 60

Is every answer right, how long do the clients wait, and what does batching gain? First the lines
are sent one at a time, for the answers to compare with and the throughput without batching. Then
each client sends one line after the other. An answer is wrong if its text differs or its score by
more than 1e-4; anything else than status 200, a connection that ends included, is a lost one. Exit
code 1 where there are such.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from urllib.parse import urlsplit

_TOLERANCE = 1e-4


class Client:
    """One connection, kept open from request to request."""

    def __init__(self, model: str):
        self._url = urlsplit(model)
        self._streams = None

    async def predict(self, line: str) -> dict:
        """The server's prediction for a line. Raises OSError or ValueError where there is none."""
        url = self._url
        if self._streams is None:
            self._streams = await asyncio.open_connection(url.hostname, url.port or 80)
        reader, writer = self._streams
        body = json.dumps({"instances": [line]}).encode()
        writer.write(
            b"POST %b:predict HTTP/1.1\r\nHost: %b\r\n" % (url.path.encode(), url.netloc.encode())
        )
        writer.write(
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        try:
            status, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            fields = dict(header.split(": ", 1) for header in headers if header)
            answer = await reader.readexactly(int(fields["content-length"]))
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the server ended the connection") from error
        if fields.get("connection") == "close":
            self.close()
        if status.split()[1] != "200":
            raise ValueError(f"{status}: {answer.decode()}")
        return json.loads(answer)["predictions"][0]

    def close(self) -> None:
        """Ends the connection, if there is one; the next request opens another."""
        if self._streams:
            self._streams[1].close()
            self._streams = None


async def ask_one_at_a_time(model: str, lines: list[str]) -> tuple[list[dict], float]:
    """(the predictions, requests a second)."""
    client, started = Client(model), time.perf_counter()
    predictions = [await client.predict(line) for line in lines]
    client.close()
    return predictions, len(lines) / (time.perf_counter() - started)


async def ask_until(
    end: float, seed: int, model: str, lines: list[str], wanted: list[dict], counts: dict
) -> list[float]:
    """One client's requests until the time `end`: the seconds that each right answer took."""
    chooser, client, seconds = random.Random(seed), Client(model), []
    while (started := time.perf_counter()) < end:
        number = chooser.randrange(len(lines))
        try:
            found = await client.predict(lines[number])
        except (OSError, ValueError) as error:
            counts["lost"] += 1
            print(f"lost: {error}", file=sys.stderr)
            client.close()
            await asyncio.sleep(0.1)
            continue
        score = wanted[number]["score"]
        if found["text"] == wanted[number]["text"] and abs(found["score"] - score) <= _TOLERANCE:
            seconds.append(time.perf_counter() - started)
        else:
            counts["wrong"] += 1
            print(f"wrong: {lines[number]!r}: {found}; expected {wanted[number]}", file=sys.stderr)
    client.close()
    return seconds


async def measure(model: str, lines: list[str], clients: int, duration: float) -> bool:
    """Prints the figures. Returns whether every answer was right."""
    wanted, alone = await ask_one_at_a_time(model, lines)
    print(f"one request at a time: {alone:.1f} requests/s ({len(lines)} lines)", flush=True)
    counts = {"wrong": 0, "lost": 0}
    started = time.perf_counter()
    tasks = [
        ask_until(started + duration, seed, model, lines, wanted, counts) for seed in range(clients)
    ]
    seconds = sorted(second for found in await asyncio.gather(*tasks) for second in found)
    together = len(seconds) / (time.perf_counter() - started)
    print(
        f"{clients} clients for {duration:g} s: {together:.1f} requests/s, "
        f"{together / alone:.2f} times as many"
    )
    if len(seconds) > 1:
        p50, p99 = (
            statistics.quantiles(seconds, n=100, method="inclusive")[place] for place in (49, 98)
        )
        print(f"latency: p50 {p50:.3f} s, p99 {p99:.3f} s, longest {seconds[-1]:.3f} s")
    print(f"answers: {len(seconds)} right, {counts['wrong']} wrong, {counts['lost']} lost")
    return bool(seconds) and not any(counts.values())


def main():
    """Exits with code 1 where an answer was wrong or lost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", required=True, metavar="URL", help="http://HOST:PORT/v1/models/NAME"
    )
    parser.add_argument("--input", required=True, metavar="FILE", help="one text a line, in UTF-8")
    parser.add_argument(
        "--lines", type=int, default=200, metavar="N", help="how many of them to use (default: 200)"
    )
    parser.add_argument("--clients", type=int, default=50, metavar="N")
    parser.add_argument("--seconds", type=float, default=60, metavar="S")
    args = parser.parse_args()
    with open(args.input, encoding="utf-8", newline="\n") as file:
        lines = file.read().split("\n")[: args.lines]
    sys.exit(0 if asyncio.run(measure(args.model, lines, args.clients, args.seconds)) else 1)


if __name__ == "__main__":
    main()
