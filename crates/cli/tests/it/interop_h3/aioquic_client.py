"""An HTTP/3 client around aioquic: does what a plan says on one connection, and prints a report.

Both are lines of JSON, the plan on standard input; `README.md` beside this file tells what they hold.
Usage: aioquic_client.py PORT CA_FILE
"""

import asyncio
import hashlib
import json
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer, encode_uint_var
from aioquic.h3.connection import H3_ALPN, FrameType, H3Connection, encode_frame
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import MAX_EARLY_DATA
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived, StreamReset
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import Epoch

# No plan takes longer.
PATIENCE = 40

NAMES = {QuicProtocolVersion.VERSION_1: "v1", QuicProtocolVersion.VERSION_2: "v2"}

# Of the form that is kept for versions that nobody speaks (RFC 9000 section 15).
UNKNOWN_VERSION = 0x1A2A3A4A

# For a request (RFC 9218 section 7.2).
PRIORITY_UPDATE = 0xF0700

# altway opens its control stream first.
CONTROL_STREAM = 3


class Exchange:
    """A request and what has come of its response."""

    def __init__(self, request, done):
        self.request = request
        self.upload = request.get("upload", 0)
        self.done = done
        # Set when a quarter of the upload's size has come back.
        self.enough = asyncio.Event()
        self.interim = []
        self.head = None
        self.trailers = {}
        self.size = 0
        self.digest = hashlib.sha256()

    def on_headers(self, headers):
        fields = {name.decode(): value.decode() for name, value in headers}
        if self.head is not None:
            self.trailers = fields
        elif fields[":status"].startswith("1"):
            self.interim.append(int(fields[":status"]))
        else:
            self.head = fields

    def on_data(self, data):
        self.size += len(data)
        self.digest.update(data)
        if self.size >= self.upload // 4:
            self.enough.set()

    def report(self):
        return {
            "interim": self.interim,
            "status": int(self.head[":status"]),
            "fields": self.head,
            "bytes": self.size,
            "sha256": self.digest.hexdigest(),
            "trailers": self.trailers,
        }


class Client(QuicConnectionProtocol):
    """One connection."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.plan = {}
        self.exchanges = {}
        self.first = None
        self.control = b""
        self.moves = self.key_updates = 0
        self.begun = False
        self.attempted_early = False
        self.closed = None

    async def exchange(self, authority, request):
        stream = self._quic.get_next_available_stream_id()
        exchange = self.exchanges[stream] = Exchange(request, self._loop.create_future())
        self.first = self.first or exchange
        fields = [
            (b":method", request["method"].encode()),
            (b":scheme", b"https"),
            (b":authority", authority.encode()),
            (b":path", request["path"].encode()),
        ]
        more = request.get("fields", {})
        fields += [(name.encode(), value.encode()) for name, value in more.items()]
        trailers = request.get("trailers", {})
        bare = not exchange.upload and not trailers
        self.attempted_early |= self._quic._cryptos[Epoch.ZERO_RTT].send.is_valid()
        if "priority_update" in request:
            self.send_priority_update(stream, request["priority_update"])
        self.http.send_headers(stream, fields, end_stream=bare)
        self.transmit()
        if exchange.upload:
            await self.send_body(stream, exchange, end=not trailers)
        if trailers:
            fields = [(name.encode(), value.encode()) for name, value in trailers.items()]
            self.http.send_headers(stream, fields, end_stream=True)
            self.transmit()
        await exchange.done
        del self.exchanges[stream]
        return exchange.report()

    async def send_body(self, stream, exchange, end):
        body = bytes(i % 251 for i in range(exchange.upload))
        half = len(body) // 2
        self.http.send_data(stream, body[:half], end_stream=False)
        self.transmit()
        await exchange.enough.wait()
        self.http.send_data(stream, body[half:], end_stream=end)
        self.transmit()

    def send_priority_update(self, stream, value):
        """RFC 9218 section 7.2, which aioquic does not know."""
        payload = encode_uint_var(stream) + value.encode()
        frame = encode_frame(PRIORITY_UPDATE, payload)
        self._quic.send_stream_data(self.http._local_control_stream_id, frame)

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.closed = event.error_code if event.frame_type is None else None
            failure = ConnectionError(f"{event.error_code:#x} {event.reason_phrase}")
            self.fail_all(failure)
        elif isinstance(event, StreamReset) and event.stream_id in self.exchanges:
            failure = ConnectionError(f"reset with {event.error_code:#x}")
            self.fail(self.exchanges[event.stream_id], failure)
        elif isinstance(event, StreamDataReceived) and event.stream_id == CONTROL_STREAM:
            self.control += event.data
        for one in self.http.handle_event(event):
            self.http_event_received(one)

    def http_event_received(self, event):
        exchange = self.exchanges.get(event.stream_id)
        if exchange is None:
            return
        if isinstance(event, HeadersReceived):
            exchange.on_headers(event.headers)
        elif isinstance(event, DataReceived):
            exchange.on_data(event.data)
            if exchange is self.first:
                self.disturb(exchange)
        if event.stream_ended and not exchange.done.done():
            exchange.done.set_result(None)

    def fail_all(self, failure):
        for exchange in self.exchanges.values():
            self.fail(exchange, failure)

    @staticmethod
    def fail(exchange, failure):
        exchange.enough.set()
        if not exchange.done.done():
            exchange.done.set_exception(failure)

    def disturb(self, exchange):
        """Does what is planned for the time that the first response takes."""
        if self.plan.get("announce") and not self.begun:
            self.begun = True
            print(json.dumps({"event": "begun"}), flush=True)
        size = int(exchange.head.get("content-length", 0))
        planned = self.plan.get("moves", 0)
        if self.moves < planned and exchange.size > (self.moves + 1) * size // (planned + 1):
            self.moves += 1
            self._loop.create_task(self.move())
        planned = self.plan.get("key_updates", 0)
        due = exchange.size > (self.key_updates + 1) * size // (planned + 1)
        if self.key_updates < planned and due:
            self.key_updates += 1
            self.request_key_update()

    async def move(self):
        """Goes on from another port, with another connection ID (RFC 9000 section 9.5)."""
        client = self

        class Forward(asyncio.DatagramProtocol):
            def datagram_received(self, data, address):
                client.datagram_received(data, address)

        transport, _ = await self._loop.create_datagram_endpoint(Forward, local_addr=("::", 0))
        former, self._transport = self._transport, transport
        # What the server still sends there is lost.
        former.close()
        self.change_connection_id()

    def saw_goaway(self):
        """aioquic passes GOAWAY over."""
        # The stream's type, then frames.
        buffer = Buffer(data=self.control[1:])
        while not buffer.eof():
            kind, size = buffer.pull_uint_var(), buffer.pull_uint_var()
            buffer.pull_bytes(size)
            if kind == FrameType.GOAWAY:
                return True
        return False

    def report(self):
        quic, http = self._quic, self.http
        return {
            "version": NAMES[quic._version],
            "other_versions": int(quic._version_negotiated_incompatible),
            "retries": quic._retry_count,
            "moves": self.moves,
            "key_updates": self.key_updates,
            "go_away": self.saw_goaway(),
            "closed": self.closed,
            "resumed": quic.tls.session_resumed,
            "attempted_early": self.attempted_early,
            "early": quic.tls.early_data_accepted,
            "qpack": {
                "sent": http._encoder_bytes_sent,
                "acknowledged": http._decoder_bytes_received,
                "received": http._encoder_bytes_received,
            },
        }


def configuration(authority, plan):
    config = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost")
    config.load_verify_locations(authority)
    config.idle_timeout = PATIENCE
    if plan.get("other_version"):
        config.original_version = UNKNOWN_VERSION
        config.supported_versions = [UNKNOWN_VERSION, QuicProtocolVersion.VERSION_1]
    if plan.get("version_2"):
        config.original_version = QuicProtocolVersion.VERSION_2
        config.supported_versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
    return config


async def one_round(client, root, plan):
    """Makes each request once."""
    room = asyncio.Semaphore(plan.get("parallel", 1))

    async def one(request):
        async with room:
            return await client.exchange(root, request)

    return await asyncio.gather(*[one(request) for request in plan["requests"]])


def unlike(former, latter):
    """How many responses differ between two rounds."""
    pairs = zip(former, latter)
    return sum(a["status"] != b["status"] or a["sha256"] != b["sha256"] for a, b in pairs)


async def work(port, config, plan, keep_ticket=None):
    early = config.session_ticket is not None
    async with connect(
        "127.0.0.1",
        port,
        configuration=config,
        create_protocol=Client,
        session_ticket_handler=keep_ticket,
        wait_connected=not early,
    ) as client:
        client.plan = plan
        responses, differing = [], 0
        for _ in range(plan.get("repeat", 1)):
            latest = await one_round(client, f"localhost:{port}", plan)
            differing += unlike(responses, latest)
            responses = latest
        if plan.get("linger"):
            await client.wait_closed()
        return {"responses": responses, "unlike": differing} | client.report()


async def perform(port, authority, plan):
    config = configuration(authority, plan)
    if plan.get("early"):
        tickets = []
        await work(port, config, plan, tickets.append)
        ticket = tickets[0]
        # As if the server had allowed early data.
        ticket.max_early_data_size = MAX_EARLY_DATA
        config = configuration(authority, plan)
        config.session_ticket = ticket
    return await work(port, config, plan)


async def main(port, authority, plan):
    report = await asyncio.wait_for(perform(port, authority, plan), PATIENCE)
    print(json.dumps(report))


asyncio.run(main(int(sys.argv[1]), sys.argv[2], json.loads(sys.stdin.readline())))
