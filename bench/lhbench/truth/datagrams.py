#!/usr/bin/env python3
"""Numbered datagrams: `send ADDRESS PORT COUNT PER_SECOND` and `receive PORT COUNT`, which prints the missing ones.

Runs as a program of its own on a host of a twin.
"""

import json
import socket
import struct
import sys
import time

_NUMBER = struct.Struct("!Q")
_SIZE = 200
# Nothing for so long after the first one: that was all.
_SILENCE_S, _FIRST_S = 2.0, 20.0
_SO_RCVBUFFORCE = 33
_BUFFER_BYTES = 256 << 20
_BATCH = 16


def send(address, port, count, per_second):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect((address, int(port)))
    padding = bytes(_SIZE - _NUMBER.size)
    begin, period_s = time.monotonic(), 1 / float(per_second)
    for number in range(int(count)):
        if number % _BATCH == 0:
            time.sleep(max(0.0, begin + number * period_s - time.monotonic()))
        out.send(_NUMBER.pack(number) + padding)


def receive(port, count):
    into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    into.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    into.bind(("0.0.0.0", int(port)))
    print("ready", flush=True)
    missing, wrong = set(range(int(count))), 0
    into.settimeout(_FIRST_S)
    try:
        while missing:
            number, = _NUMBER.unpack_from(into.recv(2 * _SIZE))
            into.settimeout(_SILENCE_S)
            # What came twice, or has a number that was never sent.
            wrong += number not in missing
            missing.discard(number)
    except TimeoutError:
        pass
    print(json.dumps({"missing": sorted(missing), "wrong": wrong}))


if __name__ == "__main__":
    {"send": send, "receive": receive}[sys.argv[1]](*sys.argv[2:])
