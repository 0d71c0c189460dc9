"""``dovetail run``: run the controllers in a real cluster."""

import asyncio
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click
import msgspec

from dovetail.cli.files import attempt, read_bytes
from dovetail.cli.options.discounts import discounts_in
from dovetail.cli.options.policy import note_clashes
from dovetail.cli.output.console import write_error
from dovetail.cli.run.dashboard import DashboardSettings, dashboard_of_process
from dovetail.cli.run.options import RunOptions, add_run_options
from dovetail.cli.signals import stop_event
from dovetail.codec.catalog.prices import read_prices
from dovetail.core.disruption.policy import Policy
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.host.clock import SystemClock
from dovetail.host.executor import DetachedThreadPool
from dovetail.host.gc import use_one_heap
from dovetail.host.log_writer import LineLog
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from dovetail.kube.leaderelection.lease import scale_timing
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.discounts import NO_DISCOUNTS
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.settings import (
    BatchSettings,
    ConsolidationSettings,
    FeatureGates,
    InterruptionSettings,
    MinValuesPolicy,
    PreferencePolicy,
    SchedulingSettings,
)
from dovetail.observability.exposition import ProcessObservability
from dovetail.observability.http_server import Endpoints, serving
from dovetail.operator.aws import AwsCloudFactory, AwsSettings
from dovetail.operator.cloud import CloudFactory
from dovetail.operator.instance_type_refresh import CatalogSettings
from dovetail.operator.leader import LeaderElectionSettings, get_default_lease_namespace
from dovetail.operator.operator import Operator, OperatorSettings
from dovetail.policies.process import open_policy


@click.command(
    epilog="Exit codes: 0 stopped by SIGTERM or Ctrl-C; 1 bad input, a cluster or account that "
    "cannot be used, or the leader's lease lost; 70 a bug in Dovetail."
)
@add_run_options
def run(**arguments: Any) -> None:
    """Run the autoscaler for a cluster until SIGTERM or Ctrl-C.

    Launches EC2 instances for unschedulable pods and terminates nodes that are not needed, as
    configured by NodePools and EC2NodeClasses. Logs go to stdout. With several replicas, leader
    election picks one; the others stand by. Dovetail refuses to start if Karpenter is running.
    """
    use_one_heap()
    options = RunOptions(**arguments)
    errors: list[ValidationError] = []
    clock = SystemClock()
    access = attempt(
        errors,
        lambda: load_rest_config(
            options.kubeconfig, environ=os.environ, clock=clock, context=options.context
        ),
    )
    catalog = attempt(errors, lambda: _catalog_settings(options))
    if access is None or catalog is None:
        raise InvalidInputError(errors)
    cloud_factory = _cloud_factory(options, access, catalog)
    log = LineLog(_print, clock=clock, level=options.log_level, form=options.log_format)
    note_clashes()
    try:
        with open_policy(options.policy) as policy:
            settings = _operator_settings(options, policy)
            asyncio.run(_operate(options, settings, access, cloud_factory, log))
    except InvalidInputError:
        raise
    except DovetailError as error:
        write_error(str(error))
        _exit_now(1)
    _exit_now(0)


def _catalog_settings(options: RunOptions) -> CatalogSettings:
    """Read the price and discount files; raise with the errors of both."""
    errors: list[ValidationError] = []
    discounts = attempt(errors, lambda: discounts_in(options.discounts))
    prices = attempt(errors, lambda: _prices(options.prices))
    if errors:
        raise InvalidInputError(errors)
    return CatalogSettings(
        instance_types=InstanceTypeSettings(
            reserved_enis=options.reserved_enis,
            vm_memory_overhead=options.vm_memory_overhead_percent,
            reserved_capacity=options.feature_gates.ReservedCapacity,
            kubelet_expressions=_gates(options).NodeClassCEL,
            burstable=BurstablePolicy(options.burstable),
        ),
        prices=prices,
        discounts=discounts or NO_DISCOUNTS,
        isolated=options.isolated_vpc,
    )


def _aws_settings(options: RunOptions, catalog: CatalogSettings) -> AwsSettings:
    return AwsSettings(
        cluster_name=options.cluster_name,
        cluster_endpoint=options.cluster_endpoint,
        cluster_ca_bundle=options.cluster_ca_bundle,
        region=options.region,
        interruption_queue=options.interruption_queue,
        isolated_vpc=options.isolated_vpc,
        disable_dry_run=options.disable_dry_run,
        enable_zonal_shift=options.enable_zonal_shift,
        catalog=catalog,
    )


def _cloud_factory(options: RunOptions, access: RestConfig, catalog: CatalogSettings) -> CloudFactory:
    if options.cloud == "aws":
        return AwsCloudFactory(_aws_settings(options, catalog))
    # Imported here: the production process loads no simulator.
    from dovetail.operator.virtual.account import DEFAULT_REGION, AccountSettings
    from dovetail.operator.virtual.cloud import VirtualCloudFactory, VirtualSettings

    settings = VirtualSettings(
        cluster_name=options.cluster_name,
        account=AccountSettings(
            region=options.region or DEFAULT_REGION,
            catalog=bundled_catalog(),
            prices=catalog.prices.with_list(bundled_prices()) if catalog.prices else bundled_prices(),
            kubelet_expressions=_gates(options).NodeClassCEL,
        ),
        endpoint=options.virtual_endpoint,
        discounts=catalog.discounts,
        burstable=catalog.instance_types.burstable,
        allow_real_nodes=options.virtual_anyway,
    )
    return VirtualCloudFactory(access, settings)


def _gates(options: RunOptions) -> FeatureGates:
    """Return all feature gates; Karpenter has an option of its own for those of AWS."""
    if not options.aws_feature_gates.NodeClassCEL:
        return options.feature_gates
    return msgspec.structs.replace(options.feature_gates, NodeClassCEL=True)


def _prices(file: str | None) -> PriceBook | None:
    return None if file is None else read_prices(file, read_bytes(file))


def _operator_settings(options: RunOptions, policy: Policy) -> OperatorSettings:
    return OperatorSettings(
        qps=options.kube_client_qps,
        burst=options.kube_client_burst,
        scheduling=SchedulingSettings(
            preference_policy=PreferencePolicy(options.preference_policy),
            min_values_policy=MinValuesPolicy(options.min_values_policy),
            reserved_capacity=options.feature_gates.ReservedCapacity,
            min_node_memory=options.min_node_memory,
            node_cost=options.node_cost,
            fewer_nodes_tolerance=options.fewer_nodes_tolerance,
        ),
        batching=BatchSettings(
            idle_duration=options.batch_idle_duration,
            max_duration=options.batch_max_duration,
            scheduling_timeout=options.scheduling_timeout,
        ),
        interruption=InterruptionSettings(act_on_rebalance=options.act_on_rebalance),
        consolidation=ConsolidationSettings(
            spot_to_spot=options.feature_gates.SpotToSpotConsolidation,
            min_spot_types=options.spot_to_spot_types,
            balanced_k=options.balanced_threshold,
            min_saving=options.consolidation_min_saving,
            min_saving_per_pod=options.consolidation_min_saving_per_pod,
            min_saving_share=options.consolidation_min_saving_share,
        ),
        policy=policy,
        leader_election=_leader_election(options),
        gates=_gates(options),
        namespace=get_default_lease_namespace(os.environ),
    )


def _leader_election(options: RunOptions) -> LeaderElectionSettings | None:
    if options.disable_leader_election:
        return None
    namespace = options.leader_election_namespace or get_default_lease_namespace(os.environ)
    return LeaderElectionSettings(
        name=options.leader_election_name,
        namespace=namespace,
        timing=scale_timing(options.leader_election_lease_seconds),
    )


async def _operate(
    options: RunOptions,
    settings: OperatorSettings,
    access: RestConfig,
    cloud_factory: CloudFactory,
    log: LineLog,
) -> None:
    stop = stop_event()
    asyncio.get_running_loop().set_default_executor(DetachedThreadPool())
    observability = ProcessObservability(
        SystemClock(), per_node_metrics=not options.disable_cluster_state_observability
    )
    endpoints = Endpoints(
        address=options.bind_address, metrics_port=options.metrics_port, probe_port=options.health_probe_port
    )
    dashboard = DashboardSettings(
        port=options.dashboard_port,
        token_file=options.dashboard_token_file,
        cluster_name=options.cluster_name,
        region=options.region or "",
    )
    async with (
        serving(endpoints, scrape=observability.exposition.text, health=observability.health),
        dashboard_of_process(dashboard, log) as on_synced,
    ):
        operator = Operator(
            access,
            cloud_factory=cloud_factory,
            settings=settings,
            log=log,
            observability=observability,
            on_synced=on_synced,
        )
        await operator.run(stop)


def _print(line: str) -> None:
    # A closed pipe loses log lines, but does not stop the controllers.
    with suppress(OSError, ValueError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _exit_now(code: int) -> NoReturn:
    """End the process without waiting for threads.

    An AWS call (receiving a message takes up to 20 s) or a DNS lookup may still block a thread.
    """
    sys.stdout.flush()
    os._exit(code)
