#!/usr/bin/env python3
"""Round trips of ICMP echoes in microseconds: `echo.py ADDRESS COUNT PERIOD_S`, one number a line.

What ping does, to the microsecond: ping shows three digits, which are 0.1 ms at 10 ms and 1 ms at 100 ms. Sent is
when the call begins, received is what the kernel stamps.
"""

import os
import socket
import struct
import sys
import time

_HEADER = struct.Struct("!BBHHH")
_STAMP = struct.Struct("@qq")
_SO_TIMESTAMPNS = 35
_ECHO, _REPLY = 8, 0
_LONGEST_S = 0.7


def main(address, count, period_s):
    pipe = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    pipe.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    pipe.connect((address, 0))
    identity = os.getpid() & 0xFFFF
    for number in range(int(count)):
        packet = _packet(identity, number & 0xFFFF)
        sent_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
        pipe.send(packet)
        came_ns = _reply(pipe, identity, number & 0xFFFF)
        if came_ns is not None:
            print((came_ns - sent_ns) / 1e3)
        time.sleep(float(period_s))


def _packet(identity, number):
    payload = bytes(56)
    words = struct.unpack("!4H", _HEADER.pack(_ECHO, 0, 0, identity, number))
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    return _HEADER.pack(_ECHO, 0, ~total & 0xFFFF, identity, number) + payload


def _reply(pipe, identity, number):
    """When the kernel saw the answer, nanoseconds; None if none came."""
    until = time.monotonic() + _LONGEST_S
    while (left := until - time.monotonic()) > 0:
        pipe.settimeout(left)
        try:
            data, extra, _, _ = pipe.recvmsg(2048, 256)
        except TimeoutError:
            return None
        inner = data[(data[0] & 15) * 4:]
        kind, _, _, theirs, which = _HEADER.unpack_from(inner)
        if (kind, theirs, which) == (_REPLY, identity, number):
            seconds, ns = _STAMP.unpack(extra[0][2])
            return seconds * 1_000_000_000 + ns
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
