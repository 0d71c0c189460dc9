"""One look at everything that is within reach."""

from dovetail.aws.errors import AwsError
from dovetail.aws.session import THREADS, Aws
from dovetail.doctor.facts import Facts
from dovetail.doctor.gather import Given, facts_of_cluster, facts_with_aws
from dovetail.doctor.sources.kubernetes import open_connection
from dovetail.eks.aws_errors import to_a_person
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from dovetail.kube.auth.kubeconfig import Access


async def look(given: Given, access: Access | str, *, ask_aws: bool = True) -> Facts:
    """Read files, Kubernetes and AWS; what is out of reach says why.

    ``access`` may be a text that says why there is none.
    """
    if isinstance(access, str):
        facts = await facts_of_cluster(given, access)
    else:
        connection = open_connection(access)
        try:
            facts = await facts_of_cluster(given, connection)
        finally:
            await connection.close()
    if not ask_aws:
        return await facts_with_aws(facts, "nobody was to ask AWS (--no-aws)")
    threads = ThreadOffload(THREADS, name="aws")
    try:
        aws = Aws(
            loop=AsyncioLoop(),
            offload=threads,
            chance=RealChance(),
            region=facts.region or None,
        )
        return await facts_with_aws(facts, aws)
    except AwsError as error:
        # Of a profile that is not there; what calls raise spoils the part that wanted it.
        return await facts_with_aws(facts, str(to_a_person(error, "sts")))
    finally:
        threads.close()
