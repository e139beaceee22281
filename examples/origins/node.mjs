// A shop on Node, without packages: a page that is rendered and compressed for each request, and the pictures that
// it names. `node node.mjs 127.0.0.1:3000`; README.md says what it is for.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { gzip } from "node:zlib";

const catalogue = JSON.parse(readFileSync(new URL("catalogue.json", import.meta.url)));

/** The page's path says how much it and its pictures weigh, as those of the lab do. */
const total = catalogue.pictures.reduce((sum, { bytes }) => sum + bytes, catalogue.document_bytes);
const pagePath = `/page-${total}.html`;

/** Pictures by path; the smallest is what the lab asks for first. */
const pictures = new Map(
  [125, ...catalogue.pictures.map(({ bytes }) => bytes)].map((bytes) => [`/${bytes}.bin`, picture(bytes)]),
);

/** A GIF of one pixel and of so many bytes: what is left goes into comments. */
function picture(bytes) {
  const head = Buffer.from("GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff\x21\xfe", "latin1");
  const tail = Buffer.from("\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b", "latin1");
  const comments = [];
  for (let left = bytes - head.length - tail.length; left > 0; ) {
    // A comment is 2 to 256 bytes, the first of which says how many follow.
    const size = left === 257 ? 255 : Math.min(left, 256);
    comments.push(Buffer.alloc(size, "."));
    comments.at(-1)[0] = size - 1;
    left -= size;
  }
  return Buffer.concat([head, ...comments, tail]);
}

function page() {
  const items = catalogue.pictures.map(
    ({ name, bytes }, ordinal) =>
      `<figure><img src=/${bytes}.bin?${ordinal} alt="${name}"><figcaption><b>${name}</b> ${catalogue.blurb}</figcaption></figure>\n`,
  );
  const head = `<!doctype html><title>${catalogue.title}</title>\n<link rel=icon href=data:,>\n<h1>${catalogue.title}</h1>\n`;
  return (head + items.join("")).padEnd(catalogue.document_bytes);
}

function answerPage(request, response) {
  const head = { "content-type": "text/html; charset=utf-8", "cache-control": "no-cache", vary: "accept-encoding" };
  const send = (body, more) => response.writeHead(200, { ...head, ...more, "content-length": body.length }).end(body);
  if (!/\bgzip\b/.test(request.headers["accept-encoding"] ?? "")) {
    return send(Buffer.from(page()), {});
  }
  gzip(page(), (error, body) => (error ? response.destroy(error) : send(body, { "content-encoding": "gzip" })));
}

function answerPicture(request, response, body) {
  const etag = `"${body.length}"`;
  const head = { "cache-control": "public, max-age=31536000, immutable", etag };
  if (request.headers["if-none-match"] === etag) {
    return response.writeHead(304, head).end();
  }
  response.writeHead(200, { ...head, "content-type": "image/gif", "content-length": body.length }).end(body);
}

const server = createServer((request, response) => {
  const path = request.url.split("?")[0];
  if (path === pagePath) {
    return answerPage(request, response);
  }
  const body = pictures.get(path);
  return body ? answerPicture(request, response, body) : response.writeHead(404).end();
});

const [host, port] = (process.argv[2] ?? "127.0.0.1:3000").split(":");
server.listen(Number(port), host, () => console.log(`http://${host}:${server.address().port}${pagePath}`));
