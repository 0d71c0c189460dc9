"""Operator process in a simulated cluster: real controllers on simulated ports."""

import msgspec

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.registry import controllers
from dovetail.controllers.runtime.event_recorder import KubeEventRecorder
from dovetail.controllers.runtime.manager import ControllerManager
from dovetail.core.disruption.policy import DEFAULT_POLICY, Policy
from dovetail.core.instancetypes.build import cached_instance_types
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.settings import ConsolidationSettings, FeatureGates, SchedulingSettings
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.randomness import RandomSource
from dovetail.ports.telemetry import Log, Metrics
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.ec2.account import Ec2Account
from dovetail.simulator.ec2.cloudprovider import SimulatedCloudProvider
from dovetail.simulator.ec2.interruption_queue import SimulatedInterruptionQueue
from dovetail.simulator.environment import InlineExecutor
from dovetail.simulator.event_loop import VirtualEventLoop
from dovetail.simulator.kube_client import DiscardingKubeClient, start_reflectors
from dovetail.state.capacitybuffers import CapacityBuffers
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.write_through import WriteThroughClient
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from dovetail.state.nodes.nominations import NodeNominations
from dovetail.state.pods.assignments import PodAssignments
from dovetail.state.pods.evictions import PendingEvictions


class SimulatedOperator:
    """One process with all controllers; its state is lost when it is killed."""

    def __init__(
        self,
        *,
        api: ApiServer,
        clock: VirtualClock,
        ec2: Ec2Account,
        catalog: Catalog,
        prices: PriceBook,
        random: RandomSource,
        log: Log,
        metrics: Metrics,
        settings: SchedulingSettings,
        gates: FeatureGates,
        kube: KubeClient,
        discounts: DiscountBook = NO_DISCOUNTS,
        burstable: BurstablePolicy = BurstablePolicy.BASELINE,
        consolidation: ConsolidationSettings = ConsolidationSettings(),  # noqa: B008 - frozen
        keep_events: bool = True,
        policy: Policy = DEFAULT_POLICY,
        namespace: str = "kube-system",
    ) -> None:
        """Start the controllers; ``kube`` is a client of ``api``, maybe with checks.

        Without ``keep_events``, the Events that they publish are not stored.
        """
        self.loop = VirtualEventLoop(clock)
        self.cache = ClusterCache(gates, shares_parts=True)
        self._stops = start_reflectors(self.cache, api, clock)
        kube = WriteThroughClient(kube, self.cache)
        unavailable, overlays = UnavailableOfferings(), NodeOverlays(enabled=gates.NodeOverlay)
        cloud = SimulatedCloudProvider(
            ec2,
            loop=self.loop,
            catalog=catalog,
            prices=prices,
            node_class=self.cache.node_class,
            unavailable=unavailable,
            overlays=overlays,
            discounts=discounts,
            kubelet_expressions=gates.NodeClassCEL,
            burstable=burstable,
            build=cached_instance_types,
        )
        context = self.context = ControllerContext(
            cache=self.cache,
            namespace=namespace,
            assignments=PodAssignments(self.cache),
            nominations=NodeNominations(),
            evictions=PendingEvictions(),
            unavailable_offerings=unavailable,
            nodeoverlays=overlays,
            capacity_buffers=CapacityBuffers(self.cache if gates.CapacityBuffer else None),
            kube=kube,
            cloud_provider=cloud,
            interruption_queue=SimulatedInterruptionQueue(ec2.queue, loop=self.loop),
            loop=self.loop,
            executor=InlineExecutor(),
            random=random,
            log=log,
            events=KubeEventRecorder(
                kube=kube if keep_events else DiscardingKubeClient(api),
                loop=self.loop,
                random=random,
                log=log,
            ),
            metrics=metrics,
            scheduling_settings=settings,
            consolidation_settings=msgspec.structs.replace(
                consolidation, spot_to_spot=gates.SpotToSpotConsolidation
            ),
            consolidation_policy=policy,
            feature_gates=gates,
        )
        self.manager = ControllerManager(controllers(context), context)
        self.manager.start()

    def kill(self) -> None:
        """Kill the process at once: its tasks, timers and watches stop."""
        self.loop.stop()
        for stop in self._stops:
            stop()
