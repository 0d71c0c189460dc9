"""A minimal synchronous Kubernetes API client."""

import http.client
import json
import ssl
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlsplit

_CONTENT_TYPES = {"PATCH": "application/strategic-merge-patch+json", "APPLY": "application/apply-patch+yaml"}


class RequestError(Exception):
    """The API server returned an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class ApiClient:
    """Client with the certificate of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        self._host = urlsplit(cluster["server"]).netloc
        with NamedTemporaryFile() as file:
            for part in ("client-certificate-data", "client-key-data"):
                file.write(b64decode(user[part]))
            file.flush()
            self._tls.load_cert_chain(file.name)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request; the method APPLY is server-side apply."""
        verb = "PATCH" if method == "APPLY" else method
        if method == "APPLY":
            path += "?fieldManager=eks&force=true"
        headers = {"Content-Type": _CONTENT_TYPES.get(method, "application/json")}
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=30)
        with closing(connection):
            connection.request(verb, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        if response.status >= http.client.BAD_REQUEST:
            raise RequestError(response.status, text)
        return json.loads(text)

    def list(self, path: str) -> list[Any]:
        items: list[Any] = self.request("GET", path)["items"]
        return items

    def delete(self, path: str) -> None:
        """Delete an object without a grace period; not found is success."""
        try:
            self.request("DELETE", path, {"kind": "DeleteOptions", "gracePeriodSeconds": 0})
        except RequestError as error:
            if error.status != http.client.NOT_FOUND:
                raise
