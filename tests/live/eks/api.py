"""An API server for programs of few words: one request, one answer."""

import http.client
import json
import ssl
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlsplit

_KINDS = {
    "PATCH": "application/strategic-merge-patch+json",
    "APPLY": "application/apply-patch+yaml",
}


class Refused(Exception):
    """The server said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """Asks as whoever a kubeconfig with a client certificate is of."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        self._host = urlsplit(cluster["server"]).netloc
        with NamedTemporaryFile() as both:
            for part in ("client-certificate-data", "client-key-data"):
                both.write(b64decode(user[part]))
            both.flush()
            self._tls.load_cert_chain(both.name)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request; APPLY is a PATCH by server-side apply."""
        verb = "PATCH" if method == "APPLY" else method
        if method == "APPLY":
            path += "?fieldManager=eks&force=true"
        head = {"Content-Type": _KINDS.get(method, "application/json")}
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=30)
        with closing(connection):
            connection.request(verb, path, None if body is None else json.dumps(body), head)
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status >= http.client.BAD_REQUEST:
            raise Refused(answer.status, text)
        return json.loads(text)

    def list(self, path: str) -> list[Any]:
        found: list[Any] = self.ask("GET", path)["items"]
        return found

    def delete(self, path: str) -> None:
        """Have something go at once; being gone already is success."""
        try:
            self.ask("DELETE", path, {"kind": "DeleteOptions", "gracePeriodSeconds": 0})
        except Refused as error:
            if error.status != http.client.NOT_FOUND:
                raise
