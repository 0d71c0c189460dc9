"""moto over HTTP on a free port, with scripted errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from urllib.request import Request, urlopen

import moto.ec2.urls
import moto.iam.models
import pytest
from moto.ec2.models.launch_templates import LaunchTemplate
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tests.support.moto.behaviour import Behaviour, FailureInjector
from tests.support.moto.caches import install_caches
from tests.support.moto.ec2 import CAPACITY, Capacity, Ec2
from tests.support.moto.middleware import Middleware, Wsgi

# As in AWS: spot.amazonaws.com has the role AWSServiceRoleForEC2Spot.
moto.iam.models.SERVICE_NAME_CONVERSION["spot"] = "EC2Spot"
# moto shows the tags that a launch template had when it was created.
LaunchTemplate.tags = property(lambda template: template.get_tags(), lambda template, tags: None)  # type: ignore[assignment,method-assign]
install_caches()


class MotoAws:
    """An account in moto, with its capacity and middleware."""

    def __init__(self, url: str, middleware: Middleware) -> None:
        self.url = url
        self.middleware = middleware

    @property
    def capacity(self) -> Capacity:
        return CAPACITY

    def behave(self, behaviour: Behaviour) -> FailureInjector:
        """Use this behaviour from now on; return its counts."""
        self.middleware.failures = FailureInjector(behaviour, self.middleware.failures.clock)
        return self.middleware.failures

    def reset(self) -> None:
        """Delete all resources and scripted errors."""
        with urlopen(Request(f"{self.url}/moto-api/reset", method="POST")):  # noqa: S310
            pass
        CAPACITY.reset()
        self.middleware.reset()


@contextmanager
def moto_without_amis(front: Callable[[Wsgi], Wsgi] = lambda inner: inner) -> Iterator[MotoAws]:
    """Run the server without the AMIs that moto would create anew after each reset."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        with moto_aws(front) as running:
            yield running


@contextmanager
def moto_aws(front: Callable[[Wsgi], Wsgi] = lambda inner: inner) -> Iterator[MotoAws]:
    """Run the server; ``front`` may handle services in moto's place."""
    # moto looks up the handler of EC2 here.
    moto.ec2.urls.url_paths["{0}/"] = Ec2.dispatch
    middleware = Middleware(front(DomainDispatcherApplication(create_backend_app)))
    CAPACITY.failures = lambda: middleware.failures
    server = make_server("127.0.0.1", 0, middleware, threaded=True, request_handler=_Quiet)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield MotoAws(f"http://127.0.0.1:{server.server_port}", middleware)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(MotoRequestHandler):
    def log(self, *_: object) -> None:
        """Log nothing."""
