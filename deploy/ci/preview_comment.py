"""Preview the changed manifests of a merge request, and post the result as its comment.

Runs in a GitHub workflow or a GitLab job with Python's standard library, git and
``dovetail``. Settings are environment variables:

    DOVETAIL_MANIFESTS   paths to watch, separated by blanks (default: the whole repository)
    DOVETAIL_CLUSTER     dump of the cluster (default: the live cluster of KUBECONFIG)
    DOVETAIL_FAIL_ON     limits, one per line, such as cost>+5%
    DOVETAIL_OPTIONS     more options of `dovetail preview`
    DOVETAIL_PRUNE       false: objects that are removed from files stay in the cluster

The exit code is that of ``dovetail preview``: 3 if a limit is broken.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MARKER = "<!-- dovetail preview -->"
SUFFIXES = (".yaml", ".yml", ".json")
MAX_COMMENT = 60_000
"""Characters; GitHub accepts 65,536."""
PAGE = 100


class CommentError(Exception):
    """The comment cannot be posted, or a variable is missing."""


class Comments:
    """The comments of one merge request: list, create and update."""

    def __init__(self, url: str, headers: Mapping[str, str], *, update: str, method: str) -> None:
        """``update`` is the URL of a comment without its ID, ``method`` the verb that changes it."""
        self._url = url
        self._headers = {**headers, "Content-Type": "application/json", "User-Agent": "dovetail-preview"}
        self._update = update
        self._method = method

    def post(self, body: str) -> None:
        """Update the comment of an earlier run, or create one."""
        for comment in self._list():
            if str(comment.get("body", "")).startswith(MARKER):
                self._call(self._method, f"{self._update}/{comment['id']}", {"body": body})
                return
        self._call("POST", self._url, {"body": body})

    def _list(self) -> Iterator[dict[str, Any]]:
        page = 1
        while True:
            comments = self._call("GET", f"{self._url}?per_page={PAGE}&page={page}")
            yield from comments
            if len(comments) < PAGE:
                return
            page += 1

    def _call(self, method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            detail = error.read().decode(errors="replace")[:300]
            raise CommentError(f"{method} {url}: {error.code} {error.reason} {detail}") from None
        except urllib.error.URLError as error:
            raise CommentError(f"{method} {url}: {error.reason}") from None


def find_comments(environ: Mapping[str, str]) -> tuple[Comments, str]:
    """Return the comments of the merge request, and the commit it is based on."""
    if environ.get("GITHUB_ACTIONS") == "true":
        base = require(environ, "DOVETAIL_BASE", "the base commit of the pull request")
        number = require(environ, "DOVETAIL_PULL_REQUEST", "the number of the pull request")
        token = require(environ, "GITHUB_TOKEN", "a token that may write pull requests")
        api = (
            f"{environ.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{environ['GITHUB_REPOSITORY']}"
        )
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
        comments = Comments(
            f"{api}/issues/{number}/comments", headers, update=f"{api}/issues/comments", method="PATCH"
        )
        return comments, base
    if environ.get("GITLAB_CI") == "true":
        base = require(environ, "CI_MERGE_REQUEST_DIFF_BASE_SHA", "a pipeline of a merge request")
        token = require(environ, "DOVETAIL_GITLAB_TOKEN", "a project access token with the scope api")
        project = f"{environ['CI_API_V4_URL']}/projects/{environ['CI_PROJECT_ID']}"
        url = f"{project}/merge_requests/{environ['CI_MERGE_REQUEST_IID']}/notes"
        return Comments(url, {"PRIVATE-TOKEN": token}, update=url, method="PUT"), base
    raise CommentError("neither GITHUB_ACTIONS nor GITLAB_CI is true; run this in a workflow or job")


def require(environ: Mapping[str, str], name: str, meaning: str) -> str:
    """Return a variable, or raise with what it should be."""
    value = environ.get(name, "")
    if not value:
        raise CommentError(f"{name} is not set: {meaning}")
    return value


def git(*arguments: str) -> str:
    """Run git and return its output."""
    result = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise CommentError(f"git {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def find_changed_files(base: str, paths: list[str]) -> tuple[list[str], list[str]]:
    """Return the manifests that exist now and differ from ``base``, and those that did exist."""
    listed = git("diff", "--name-status", "--no-renames", "-z", f"{base}...HEAD", "--", *paths)
    fields = listed.split("\0")[:-1]
    pairs = [
        (status, name)
        for status, name in zip(fields[::2], fields[1::2], strict=True)
        if name.endswith(SUFFIXES) and not Path(name).name.startswith((".", "kustomization."))
    ]
    return [name for status, name in pairs if status != "D"], [
        name for status, name in pairs if status != "A"
    ]


def build_command(environ: Mapping[str, str], new: list[str], old: list[str]) -> list[str]:
    """Return the command line of the preview."""
    command = ["dovetail", "preview", "-o", "markdown"]
    for name in new:
        command += ["-f", name]
    for name in old:
        command += ["--delete-file", name]
    if environ.get("DOVETAIL_CLUSTER"):
        command += ["--cluster", environ["DOVETAIL_CLUSTER"]]
    for limit in environ.get("DOVETAIL_FAIL_ON", "").splitlines():
        if limit.strip():
            command += ["--fail-on", limit.strip()]
    return command + shlex.split(environ.get("DOVETAIL_OPTIONS", ""))


def read_old_files(base: str, names: list[str], folder: str) -> list[str]:
    """Write manifests as they were in ``base`` to a folder, and return their paths."""
    merge_base = git("merge-base", base, "HEAD").strip()
    paths = []
    for name in names:
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(git("show", f"{merge_base}:{name}"), encoding="utf-8")
        paths.append(str(path))
    return paths


def run(environ: Mapping[str, str]) -> int:
    """Preview, comment, and return the exit code."""
    comments, base = find_comments(environ)
    new, old = find_changed_files(base, shlex.split(environ.get("DOVETAIL_MANIFESTS", "")) or ["."])
    if not (new or old):
        print("No manifest has changed.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        previous = read_old_files(base, old, folder) if environ.get("DOVETAIL_PRUNE") != "false" else []
        if not (new or previous):
            print("Manifests were only removed, and removed objects stay in the cluster.")
            return 0
        command = build_command(environ, new, previous)
        print("+", shlex.join(command), flush=True)
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    print(result.stdout)
    print(result.stderr, file=sys.stderr)
    comments.post(format_comment(result))
    return result.returncode


def format_comment(result: "subprocess.CompletedProcess[str]") -> str:
    """Return the report, or why there is none."""
    if result.returncode in (0, 3) and result.stdout.strip():
        body = result.stdout.strip()
    else:
        errors = result.stderr.strip()[-MAX_COMMENT // 2 :]
        body = f"{MARKER}\n### Preview of this change on the cluster: failed\n\n```\n{errors}\n```"
    if len(body) > MAX_COMMENT:
        body = body[:MAX_COMMENT] + "\n\n… cut; the whole report is in the log of the job."
    return body


if __name__ == "__main__":
    try:
        sys.exit(run(os.environ))
    except CommentError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
