"""Substitute for the AWS CLI: ``aws eks get-token``, signed by botocore."""

import json
import sys
from base64 import urlsafe_b64encode
from itertools import pairwise

import botocore.session
from botocore.signers import RequestSigner


def main(arguments: list[str]) -> int:
    """Print an ExecCredential for kubectl and helm."""
    if "get-token" not in arguments:
        sys.stderr.write(f"aws: only get-token is supported, not {' '.join(arguments)}\n")
        return 2
    options = dict(pairwise(arguments))
    region, cluster = options["--region"], options["--cluster-name"]
    session = botocore.session.get_session()
    sts = session.create_client("sts", region_name=region)
    signer = RequestSigner(
        sts.meta.service_model.service_id,
        region,
        "sts",
        "v4",
        session.get_credentials(),
        session.get_component("event_emitter"),
    )
    request = {
        "method": "GET",
        "url": f"{sts.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=region, expires_in=60, operation_name="")
    token = "k8s-aws-v1." + urlsafe_b64encode(url.encode()).decode().rstrip("=")
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    sys.stdout.write(json.dumps(credential))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
