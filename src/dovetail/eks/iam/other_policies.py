"""Policies of the queue, of people who look, and of nodes that SSM manages."""

from dovetail.eks.iam.documents import VERSION, Document, allow, arn, document


def queue_policy(queue_arn: str) -> Document:
    """Let AWS's event services write to the queue, and nobody without TLS do anything."""
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
    """Let people look at one cluster and its objects in AWS's console."""
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
    """Let SSM manage an instance: the part of AmazonSSMManagedInstanceCore it cannot do without."""
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
