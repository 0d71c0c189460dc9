"""Types of the status conditions on Karpenter's objects, as in its API."""

from typing import Final

# NodeClaim
LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"
CONSISTENT_STATE_FOUND: Final = "ConsistentStateFound"
CONSOLIDATABLE: Final = "Consolidatable"
DRIFTED: Final = "Drifted"
DISRUPTION_REASON: Final = "DisruptionReason"
"""Set while the node is being disrupted; its reason is a ``DisruptionReason``."""
DRAINED: Final = "Drained"
VOLUMES_DETACHED: Final = "VolumesDetached"
INSTANCE_TERMINATING: Final = "InstanceTerminating"

# NodePool
NODE_CLASS_READY: Final = "NodeClassReady"
NODE_REGISTRATION_HEALTHY: Final = "NodeRegistrationHealthy"

# NodePool, EC2NodeClass and NodeOverlay
VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"

# EC2NodeClass
SUBNETS_READY: Final = "SubnetsReady"
SECURITY_GROUPS_READY: Final = "SecurityGroupsReady"
AMIS_READY: Final = "AMIsReady"
INSTANCE_PROFILE_READY: Final = "InstanceProfileReady"
CAPACITY_RESERVATIONS_READY: Final = "CapacityReservationsReady"
PLACEMENT_GROUP_READY: Final = "PlacementGroupReady"

# CapacityBuffer
READY_FOR_PROVISIONING: Final = "ReadyForProvisioning"
