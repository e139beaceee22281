"""An HTTP/3 server around aioquic: serves a folder, and answers a few paths of its own.

`README.md` beside this file tells which. Prints the port that it listens on, and ends with SIGTERM.
Usage: aioquic_server.py CERTIFICATE KEY ROOT SETTINGS
"""

import asyncio
import json
import sys
from pathlib import Path

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicProtocolVersion

# A field holds no more than 64 KiB with aioquic.
FIELD = 16 << 10


class Server(QuicConnectionProtocol):
    """One connection."""

    root = Path()
    key_updates = 0

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        # Streams whose requests come back as they arrive.
        self.echoes = set()
        self.tasks = set()
        self.changed = 0

    def quic_event_received(self, event):
        for one in self.http.handle_event(event):
            if isinstance(one, HeadersReceived) and one.stream_id in self.echoes:
                self.http.send_headers(one.stream_id, one.headers, end_stream=True)
            elif isinstance(one, HeadersReceived):
                fields = {name.decode(): value.decode() for name, value in one.headers}
                self.on_request(one.stream_id, fields[":method"], fields[":path"])
            elif isinstance(one, DataReceived) and one.stream_id in self.echoes:
                self.http.send_data(one.stream_id, one.data, end_stream=one.stream_ended)
        self.transmit()

    def on_request(self, stream, method, path):
        if path == "/echo":
            self.echoes.add(stream)
            self.head(stream, 200, end=False)
        elif path == "/hints":
            link = (b"link", b"</style.css>; rel=preload")
            self.http.send_headers(stream, [(b":status", b"103"), link])
            self.head(stream, 200, end=False)
            self.http.send_data(stream, b"after hints", end_stream=True)
        elif path.startswith("/fields/"):
            size = int(path.removeprefix("/fields/")) << 10
            parts = [min(FIELD, size - at) for at in range(0, size, FIELD)]
            fields = [(f"x-large-{i}".encode(), b"x" * part) for i, part in enumerate(parts)]
            self.head(stream, 200, fields, end=True)
        else:
            self.on_file(stream, method, self.root / path.removeprefix("/"))

    def on_file(self, stream, method, file):
        if not file.is_file():
            return self.head(stream, 404, end=True)
        content = file.read_bytes()
        length = (b"content-length", str(len(content)).encode())
        self.head(stream, 200, [length], end=method == "HEAD")
        if method != "HEAD":
            task = self._loop.create_task(self.send_file(stream, content))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def send_file(self, stream, content):
        part = len(content) // (self.key_updates + 1) + 1
        self.http.send_data(stream, content[:part], end_stream=False)
        for at in range(part, len(content), part):
            await self.change_keys()
            self.http.send_data(stream, content[at : at + part], end_stream=False)
        trailers = [(b"x-key-updates", str(self.changed).encode())]
        self.http.send_headers(stream, trailers, end_stream=True)
        self.transmit()

    async def change_keys(self):
        """Done when the client has answered with the new keys: aioquic takes no others then."""
        await self.ping()
        self.request_key_update()
        await self.ping()
        self.changed += 1

    def head(self, stream, status, fields=(), *, end):
        http = self.http
        qpack = [http._encoder_bytes_sent, http._decoder_bytes_received, http._encoder_bytes_received]
        headers = [
            (b":status", str(status).encode()),
            (b"server", b"aioquic"),
            (b"x-retried", str(self._quic._retry_source_connection_id is not None).lower().encode()),
            (b"x-qpack", " ".join(map(str, qpack)).encode()),
            *fields,
        ]
        http.send_headers(stream, headers, end_stream=end)


async def main(certificate, key, root, settings):
    config = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    config.load_cert_chain(certificate, key)
    if settings.get("other_version"):
        config.supported_versions = [QuicProtocolVersion.VERSION_2]
    Server.root = Path(root)
    Server.key_updates = settings.get("key_updates", 0)
    server = await serve(
        "127.0.0.1",
        0,
        configuration=config,
        create_protocol=Server,
        retry=settings.get("retry", False),
    )
    port = server._transport.get_extra_info("sockname")[1]
    print(json.dumps({"port": port}), flush=True)
    await asyncio.Future()


asyncio.run(main(*sys.argv[1:4], json.loads(sys.argv[4])))
