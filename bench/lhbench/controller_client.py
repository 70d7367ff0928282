"""A controller's `/api/v1` from within a twin: one TLS connection, the controller known by its fingerprint."""

import hashlib
import http.client
import json
import socket
import ssl

from .errors import ArmFailed

_PATIENCE_S = 20.0


class Client:
    """`connect` gives a TCP connection to the controller. Not for several threads at once."""

    def __init__(self, connect, fingerprint, token):
        self._connect, self._fingerprint, self._token = connect, fingerprint, token
        self._connection = None

    def get(self, path):
        return self._ask("GET", path)

    def put(self, path, thing):
        return self._ask("PUT", path, thing)

    def put_toml(self, path, text):
        return self._ask("PUT", path, text, "application/toml")

    def post(self, path, thing):
        return self._ask("POST", path, thing)

    def patch(self, path, thing):
        return self._ask("PATCH", path, thing)

    def delete(self, path):
        return self._ask("DELETE", path)

    def _ask(self, method, path, thing=None, media="application/json"):
        body = thing if thing is None or isinstance(thing, str) else json.dumps(thing)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": media, "Host": "controller"}
        for attempt in range(2):
            fresh = self._connection is None
            try:
                if fresh:
                    self._connection = self._open()
                self._connection.request(method, f"/api/v1{path}", body, headers if body else {**headers, "Content-Type": ""})
                answer = self._connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException) as error:
                self.close()
                # A connection that rested is closed by the controller; a new one that fails has a reason.
                if fresh or attempt:
                    raise ArmFailed(f"{method} {path}: {error!r}") from error
        if answer.status >= 400:
            raise ArmFailed(f"{method} {path}: {answer.status}: {text.decode(errors='replace')[:400]}")
        return json.loads(text) if text else None

    def _open(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # What is checked is the fingerprint, below.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = self._connect()
        plain.settimeout(_PATIENCE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secure = context.wrap_socket(plain)
        found = f"sha256:{hashlib.sha256(secure.getpeercert(True)).hexdigest()}"
        if found != self._fingerprint:
            secure.close()
            raise ArmFailed(f"another controller answers: {found}")
        connection = http.client.HTTPConnection("controller")
        connection.sock = secure
        return connection

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None
