"""A shop on Python's standard library: a page that is rendered and compressed for each request, and the pictures that
it names. `python3 python.py 127.0.0.1:3000`; README.md says what it is for."""

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CATALOGUE = json.loads(Path(__file__).with_name("catalogue.json").read_text())
SIZES = [picture["bytes"] for picture in CATALOGUE["pictures"]]

# The page's path says how much it and its pictures weigh, as those of the lab do.
PAGE_PATH = f"/page-{CATALOGUE['document_bytes'] + sum(SIZES)}.html"


def picture(size):
    """A GIF of one pixel and of so many bytes: what is left goes into comments."""
    head = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff\x21\xfe"
    tail = b"\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b"
    comments = b""
    left = size - len(head) - len(tail)
    while left > 0:
        # A comment is 2 to 256 bytes, the first of which says how many follow.
        taken = 255 if left == 257 else min(left, 256)
        comments += bytes([taken - 1]) + b"." * (taken - 1)
        left -= taken
    return head + comments + tail


# Pictures by path; the smallest is what the lab asks for first.
PICTURES = {f"/{size}.bin": picture(size) for size in {125, *SIZES}}


def page():
    title, blurb = CATALOGUE["title"], CATALOGUE["blurb"]
    text = f"<!doctype html><title>{title}</title>\n<link rel=icon href=data:,>\n<h1>{title}</h1>\n"
    for ordinal, one in enumerate(CATALOGUE["pictures"]):
        name, size = one["name"], one["bytes"]
        text += f'<figure><img src=/{size}.bin?{ordinal} alt="{name}">'
        text += f"<figcaption><b>{name}</b> {blurb}</figcaption></figure>\n"
    return text.ljust(CATALOGUE["document_bytes"]).encode()


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and content leave together: in two pieces the second would wait for the first to be acknowledged.
    wbufsize = -1

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == PAGE_PATH:
            self.answer_page()
        elif path in PICTURES:
            self.answer_picture(PICTURES[path])
        else:
            self.answer(404, b"")

    def answer_page(self):
        fields = {"content-type": "text/html; charset=utf-8", "cache-control": "no-cache", "vary": "accept-encoding"}
        body = page()
        if "gzip" in self.headers.get("accept-encoding", ""):
            body = gzip.compress(body, 6)
            fields["content-encoding"] = "gzip"
        self.answer(200, body, fields)

    def answer_picture(self, body):
        etag = f'"{len(body)}"'
        fields = {"cache-control": "public, max-age=31536000, immutable", "etag": etag}
        if self.headers.get("if-none-match") == etag:
            self.answer(304, None, fields)
        else:
            self.answer(200, body, fields | {"content-type": "image/gif"})

    def answer(self, status, body, fields=None):
        self.send_response(status)
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        if body is not None:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    # A page's pictures are asked for at once; by default five connections may wait.
    request_queue_size = 128
    daemon_threads = True


if __name__ == "__main__":
    host, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:3000").split(":")
    with Server((host, int(port)), Shop) as server:
        print(f"http://{host}:{server.server_port}{PAGE_PATH}", flush=True)
        server.serve_forever()
