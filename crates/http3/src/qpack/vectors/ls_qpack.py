"""Writes ls_qpack.txt: what ls-qpack, which is not ours, makes of lists of fields.

python3 -m venv venv && venv/bin/pip install pylsqpack==1.0.0 && venv/bin/python ls_qpack.py > ls_qpack.txt

A line is `capacity N` (a new connection), `instructions HEX` (of the encoder stream),
`section STREAM HEX`, or `field NAME VALUE` in HEX, of the section before. Its decoder acknowledges
every other section, so that its encoder evicts, duplicates, and lets sections wait.
"""

import random

import pylsqpack

NAMES = [b":path", b":status", b"accept", b"x-custom", b"x-other", b"set-cookie", b"date"]
random.seed(9204)


def field():
    name = random.choice(NAMES)
    length = random.choice([0, 1, 8, 30, 120])
    alphabet = random.choice([b"01", b"abcxyz /", bytes(range(256))])
    return name, bytes(random.choice(alphabet[:2]) for _ in range(length))


for capacity in [0, 100, 256, 4096]:
    print("capacity", capacity)
    encoder, decoder = pylsqpack.Encoder(), pylsqpack.Decoder(capacity, 100)
    settings = encoder.apply_settings(capacity, 100)
    decoder.feed_encoder(settings)
    if settings:
        print("instructions", settings.hex())
    for stream in range(0, 160, 4):
        fields = [field() for _ in range(random.randrange(1, 6))]
        instructions, section = encoder.encode(stream, fields)
        decoder.feed_encoder(instructions)
        acknowledgement, decoded = decoder.feed_header(stream, section)
        assert decoded == fields
        if stream % 8 == 0:
            encoder.feed_decoder(acknowledgement)
        if instructions:
            print("instructions", instructions.hex())
        print("section", stream, section.hex())
        for name, value in fields:
            print(f"field {name.hex()} {value.hex()}".rstrip())
