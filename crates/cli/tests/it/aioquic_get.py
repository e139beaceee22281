"""Fetches https://localhost:PORT/PATH over HTTP/3 with aioquic, trusting one CA file.

Prints the status, the alt-svc field and the SHA-256 of the body as one line of JSON.
Usage: aioquic_get.py PORT PATH CA_FILE
"""

import asyncio
import hashlib
import json
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.done = self._loop.create_future()
        self.fields = {}
        self.body = b""

    def get(self, authority, path):
        stream = self._quic.get_next_available_stream_id()
        fields = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", authority.encode()),
            (b":path", path.encode()),
        ]
        self.http.send_headers(stream, fields, end_stream=True)
        self.transmit()
        return self.done

    def quic_event_received(self, event):
        for one in self.http.handle_event(event):
            if isinstance(one, HeadersReceived):
                self.fields.update((name.decode(), value.decode()) for name, value in one.headers)
            elif isinstance(one, DataReceived):
                self.body += one.data
            if one.stream_ended and not self.done.done():
                self.done.set_result(None)


async def main(port, path, ca_file):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN)
    configuration.load_verify_locations(ca_file)
    async with connect(
        "127.0.0.1", port, configuration=configuration, create_protocol=Client
    ) as client:
        await asyncio.wait_for(client.get(f"localhost:{port}", path), timeout=20)
        answer = {
            "status": int(client.fields[":status"]),
            "alt_svc": client.fields.get("alt-svc"),
            "bytes": len(client.body),
            "sha256": hashlib.sha256(client.body).hexdigest(),
        }
        print(json.dumps(answer))


asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
