"""T2: a provider that nobody maintains."""

import re
from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom

_SOURCE = re.compile(r'"(?:[\w.-]+/)?gavinbunney/kubectl"')


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out files that name it."""
    for name, text in sorted(facts.files.terraform.items()):
        if _SOURCE.search(text):
            yield Symptom(
                about=f"terraform/{name}",
                seen="it names the provider gavinbunney/kubectl",
                wrong="it loses track of objects and is not mended any more",
                fix="terraform state replace-provider gavinbunney/kubectl alekc/kubectl",
            )


CHECK = Check(
    code="T2",
    title="provider gavinbunney/kubectl",
    severity=Severity.RISK,
    how="source of providers in the lock file and in *.tf files",
    mend="move to alekc/kubectl, or to server-side apply",
    needs=(Part.TERRAFORM,),
    find=find,
)
