"""Policies of the interruption queue, console users, SSM and IPv6 on nodes."""

from dovetail.eks.iam.documents import VERSION, Document, allow, arn, document


def queue_policy(queue_arn: str) -> Document:
    """Return a policy that allows EventBridge to send, and denies access without TLS."""
    return {
        "Version": VERSION,
        "Id": "EC2InterruptionPolicy",
        "Statement": [
            {
                "Sid": "AllowEvents",
                "Effect": "Allow",
                "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
                "Action": "sqs:SendMessage",
                "Resource": queue_arn,
            },
            {
                "Sid": "DenyHTTP",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": queue_arn,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    }


def console_policy(cluster: str) -> Document:
    """Return a policy for read access to one cluster in the AWS console."""
    return document(
        allow(
            "AllowLookingAtTheCluster",
            [
                "eks:AccessKubernetesApi",
                "eks:DescribeAddon",
                "eks:DescribeCluster",
                "eks:DescribeFargateProfile",
                "eks:DescribeNodegroup",
                "eks:ListAddons",
                "eks:ListFargateProfiles",
                "eks:ListNodegroups",
                "eks:ListUpdates",
            ],
            [arn("eks", f"cluster/{cluster}"), arn("eks", f"*/{cluster}/*")],
        ),
        allow("AllowListingClusters", ["eks:ListClusters"], ["*"]),
    )


def ssm_node_policy() -> Document:
    """Return a policy that lets SSM manage an instance.

    It is the necessary part of AmazonSSMManagedInstanceCore.
    """
    return document(
        allow(
            "AllowSessionsAndInventory",
            [
                "ssm:UpdateInstanceInformation",
                "ssm:ListAssociations",
                "ssm:ListInstanceAssociations",
                "ssm:UpdateInstanceAssociationStatus",
                "ssm:UpdateAssociationStatus",
                "ssm:PutInventory",
                "ssm:GetDocument",
                "ssm:DescribeDocument",
                "ssmmessages:CreateControlChannel",
                "ssmmessages:CreateDataChannel",
                "ssmmessages:OpenControlChannel",
                "ssmmessages:OpenDataChannel",
                "ec2messages:AcknowledgeMessage",
                "ec2messages:DeleteMessage",
                "ec2messages:FailMessage",
                "ec2messages:GetEndpoint",
                "ec2messages:GetMessages",
                "ec2messages:SendReply",
            ],
            ["*"],
        )
    )


def ipv6_cni_policy() -> Document:
    """Return a policy that lets the VPC CNI assign IPv6 addresses; AWS has no managed one."""
    return document(
        allow(
            "AllowAssigningAddresses",
            [
                "ec2:AssignIpv6Addresses",
                "ec2:DescribeInstances",
                "ec2:DescribeTags",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeInstanceTypes",
            ],
            ["*"],
        ),
        allow(
            "AllowTaggingInterfaces",
            ["ec2:CreateTags"],
            [arn("ec2", "network-interface/*", region="*", account="*")],
        ),
    )
