"""The script of deploy/ci: changed manifests of a merge request are previewed and commented."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.preview.truth import a_pool, a_shop, an_app, build_real_cluster, dump

ROOT = Path(__file__).parents[2]
CI = ROOT / "deploy" / "ci"
SCRIPT = CI / "preview_comment.py"
MARKER = "<!-- dovetail preview -->"


class CommentServer:
    """The comment APIs of GitHub and GitLab, as far as the script calls them."""

    def __init__(self) -> None:
        self.comments: dict[int, str] = {}
        self.requests: list[tuple[str, str, str]] = []
        """Method, path and credentials."""
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def handle_request(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else {}
                token = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
                outer.requests.append((self.command, self.path, token))
                answer = json.dumps(outer.respond(self.command, self.path, body)).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = do_PATCH = do_PUT = handle_request  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def respond(self, method: str, path: str, body: dict[str, str]) -> Any:
        if method == "GET":
            page = int(path.rpartition("page=")[2])
            listed = [{"id": number, "body": text} for number, text in sorted(self.comments.items())]
            return listed[100 * (page - 1) : 100 * page]
        number = len(self.comments) + 1 if method == "POST" else int(path.rpartition("/")[2])
        if self.status == 200:
            self.comments[number] = body["body"]
        return {"id": number}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[CommentServer]:
    server = CommentServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("dump") / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": list(dump(build_real_cluster(a_shop())).objects)}))
    return str(path)


class Repository:
    """A git repository with manifests, a base commit, and changes on top of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "clusters").mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.write("clusters/pool.yaml", a_pool())
        self.write(
            "clusters/web.yaml",
            an_app("web", replicas=12),
            an_app("db", replicas=5, cpu="1800m", memory="4Gi"),
        )
        (folder / "README.md").write_text("A repository.\n")
        self.base = self.commit()

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
        command = ["git", *identity, *arguments]
        return subprocess.run(
            command, cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    def write(self, name: str, *objects: dict[str, Any]) -> None:
        (self.folder / name).write_text(yaml.safe_dump_all(objects))

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def run(repository: Repository, variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run the script; ``dovetail`` on its PATH is that of this checkout."""
    programs = repository.folder.parent / "bin"
    programs.mkdir(exist_ok=True)
    program = programs / "dovetail"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dovetail "$@"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(repository.folder.parent),
        "DOVETAIL_MANIFESTS": "clusters",
        **variables,
    }
    return subprocess.run(
        [sys.executable, str(SCRIPT)],
        cwd=repository.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def github(server: CommentServer, repository: Repository, recorded: str, **more: str) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": server.url,
        "GITHUB_REPOSITORY": "shop/platform",
        "GITHUB_TOKEN": "t0ken",
        "DOVETAIL_BASE": repository.base,
        "DOVETAIL_PULL_REQUEST": "7",
        "DOVETAIL_CLUSTER": recorded,
        **more,
    }


def gitlab(server: CommentServer, repository: Repository, recorded: str, **more: str) -> dict[str, str]:
    return {
        "GITLAB_CI": "true",
        "CI_API_V4_URL": f"{server.url}/api/v4",
        "CI_PROJECT_ID": "42",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": repository.base,
        "DOVETAIL_GITLAB_TOKEN": "t0ken",
        "DOVETAIL_CLUSTER": recorded,
        **more,
    }


@pytest.mark.slow
def test_a_pull_request_gets_one_comment_that_later_runs_update(
    server: CommentServer, repository: Repository, recorded: str
) -> None:
    server.comments = dict.fromkeys(range(1, 121), "Looks good to me.")
    repository.write("clusters/pool.yaml", a_pool(limits={"cpu": "200"}))
    repository.commit()

    first = run(repository, github(server, repository, recorded))
    repository.write("clusters/pool.yaml", a_pool(limits={"cpu": "300"}))
    repository.commit()
    second = run(repository, github(server, repository, recorded))

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert len(server.comments) == 121
    assert server.comments[121].startswith(MARKER)
    assert 'NodePool default: spec.limits none → {"cpu":"300"}' in server.comments[121]
    # Objects of files that have not changed are not in the comment.
    assert "shop/web" not in server.comments[121]
    writes = [(method, path) for method, path, _ in server.requests if method != "GET"]
    assert writes == [
        ("POST", "/repos/shop/platform/issues/7/comments"),
        ("PATCH", "/repos/shop/platform/issues/comments/121"),
    ]
    assert {token for _, _, token in server.requests} == {"Bearer t0ken"}


@pytest.mark.slow
def test_a_merge_request_that_breaks_a_limit_is_commented_and_fails(
    server: CommentServer, repository: Repository, recorded: str
) -> None:
    repository.write(
        "clusters/web.yaml", an_app("web", replicas=60), an_app("db", replicas=5, cpu="1800m", memory="4Gi")
    )
    repository.commit()

    result = run(
        repository, gitlab(server, repository, recorded, DOVETAIL_FAIL_ON="cost>+5%\n\n  unschedulable\n")
    )

    assert result.returncode == 3, result.stderr
    assert "❌ breaks a limit" in server.comments[1]
    assert "cost&gt;+5%: the cost changes by" in server.comments[1]
    assert [(method, path) for method, path, _ in server.requests] == [
        ("GET", "/api/v4/projects/42/merge_requests/7/notes?per_page=100&page=1"),
        ("POST", "/api/v4/projects/42/merge_requests/7/notes"),
    ]


@pytest.mark.slow
def test_objects_that_leave_their_file_are_deleted_unless_pruning_is_off(
    server: CommentServer, repository: Repository, recorded: str
) -> None:
    repository.write("clusters/web.yaml", an_app("web", replicas=12))
    repository.commit()

    pruned = run(repository, github(server, repository, recorded))
    kept = run(repository, github(server, repository, recorded, DOVETAIL_PRUNE="false"))

    assert (pruned.returncode, kept.returncode) == (0, 0), pruned.stderr + kept.stderr
    assert "Deployment shop/db: deleted" in pruned.stdout
    assert "deleted" not in kept.stdout


@pytest.mark.slow
def test_a_deleted_file_deletes_its_objects(
    server: CommentServer, repository: Repository, recorded: str
) -> None:
    (repository.folder / "clusters" / "web.yaml").unlink()
    repository.commit()

    result = run(repository, github(server, repository, recorded))

    assert result.returncode == 0, result.stderr
    assert "Deployment shop/web: deleted" in server.comments[1]
    assert "Deployment shop/db: deleted" in server.comments[1]


def test_a_manifest_with_an_error_is_commented_with_its_line(
    server: CommentServer, repository: Repository, recorded: str
) -> None:
    pool = a_pool()
    pool["spec"]["limts"] = {"cpu": "1"}
    repository.write("clusters/pool.yaml", pool)
    repository.commit()

    result = run(repository, github(server, repository, recorded))

    assert result.returncode == 1
    assert server.comments[1].startswith(f"{MARKER}\n### Preview of this change on the cluster: failed")
    assert "clusters/pool.yaml:" in server.comments[1]
    assert "did you mean 'limits'?" in server.comments[1]


def test_a_change_of_other_files_makes_no_comment(
    server: CommentServer, repository: Repository, recorded: str
) -> None:
    (repository.folder / "README.md").write_text("Changed.\n")
    repository.commit()

    result = run(repository, github(server, repository, recorded))

    assert (result.returncode, result.stdout) == (0, "No manifest has changed.\n")
    assert server.requests == []


def test_a_refused_comment_is_an_error_with_the_response(
    server: CommentServer, repository: Repository, recorded: str
) -> None:
    server.status = 403
    pool = a_pool()
    pool["spec"]["limts"] = {"cpu": "1"}
    repository.write("clusters/pool.yaml", pool)
    repository.commit()

    result = run(repository, github(server, repository, recorded))

    assert result.returncode == 1
    assert f"Error: GET {server.url}/repos/shop/platform/issues/7/comments" in result.stderr
    assert ": 403 Forbidden" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "neither GITHUB_ACTIONS nor GITLAB_CI is true"),
        ({"GITHUB_ACTIONS": "true"}, "DOVETAIL_BASE is not set: the base commit of the pull request"),
        ({"GITLAB_CI": "true"}, "CI_MERGE_REQUEST_DIFF_BASE_SHA is not set: a pipeline of a merge request"),
    ],
)
def test_a_missing_variable_is_named(repository: Repository, variables: dict[str, str], message: str) -> None:
    result = run(repository, variables)

    assert result.returncode == 1
    assert message in result.stderr


def test_the_workflow_and_the_job_run_the_script_with_its_variables() -> None:
    workflow = yaml.safe_load((CI / "github-preview.yaml").read_text())
    job = yaml.safe_load((CI / "gitlab-preview.yaml").read_text())["dovetail-preview"]
    step = workflow["jobs"]["preview"]["steps"][-1]
    script = SCRIPT.read_text()

    assert step["run"].endswith(SCRIPT.name)
    assert job["script"][-1].endswith(SCRIPT.name)
    assert workflow["permissions"]["pull-requests"] == "write"
    variables = {*step["env"], *job["variables"]} - {"GIT_DEPTH"}
    assert {name for name in variables if name not in script} == set()
