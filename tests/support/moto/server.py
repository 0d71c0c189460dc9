"""moto over HTTP on a free port, extended and scriptable."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from urllib.request import Request, urlopen

import moto.ec2.urls
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from tests.support.moto.door import Door, Wsgi
from tests.support.moto.fleets import SHOP, Shop
from tests.support.moto.gaps import WholeEc2


class MotoAws:
    """An account that tests can look into and disturb."""

    def __init__(self, url: str, door: Door) -> None:
        self.url = url
        self.door = door

    @property
    def shop(self) -> Shop:
        return SHOP

    def reset(self) -> None:
        """Empty the account, and end all trouble."""
        with urlopen(Request(f"{self.url}/moto-api/reset", method="POST")):  # noqa: S310
            pass
        SHOP.reset()
        self.door.reset()


@contextmanager
def moto_aws(front: Callable[[Wsgi], Wsgi] = lambda inner: inner) -> Iterator[MotoAws]:
    """Run the server for a while; ``front`` may answer for services in moto's place."""
    # Where moto looks up who answers for EC2.
    moto.ec2.urls.url_paths["{0}/"] = WholeEc2.dispatch
    door = Door(front(DomainDispatcherApplication(create_backend_app)))
    server = make_server("127.0.0.1", 0, door, threaded=True, request_handler=_Quiet)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield MotoAws(f"http://127.0.0.1:{server.server_port}", door)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(MotoRequestHandler):
    def log(self, *_: object) -> None:
        """Tests tell what matters."""
