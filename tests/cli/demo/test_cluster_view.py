"""What is seen of a cluster while nodes come and go."""

from collections import defaultdict
from datetime import timedelta

from dovetail.cli.demo.cluster_view import MachineState, Scene
from dovetail.cli.demo.object_view import PodState
from dovetail.simulator.scenario_runner import Driver
from tests.cli.demos import a_box, bundled


def test_a_machine_is_followed_from_the_claim_to_its_end_and_keeps_its_place() -> None:
    story = bundled("inflate")
    box = a_box(story)
    scene = Scene(box)
    states = defaultdict[int, list[MachineState]](list)

    for _ in Driver(box, story).steps(every=timedelta(seconds=0.2)):
        scene.catch_up()
        for place, machine in enumerate(scene.machines()):
            if not states[place] or states[place][-1] is not machine.state:
                states[place].append(machine.state)

    life = [
        MachineState.PENDING,
        MachineState.BOOTING,
        MachineState.READY,
        MachineState.DRAINING,
    ]
    assert states[0] == [MachineState.READY]
    assert [states[place] for place in range(1, scene.most)] == [life] * (scene.most - 1)


def test_pods_wait_then_start_on_a_machine_and_run() -> None:
    story = bundled("inflate")
    box = a_box(story)
    scene = Scene(box)
    seen: list[PodState] = []

    def look(_: object = None) -> None:
        scene.catch_up()
        placed = [pod.state for machine in scene.machines()[1:] for pod in machine.pods]
        states = (*(pod.state for pod in scene.waiting()), *placed)
        seen.extend(state for state in dict.fromkeys(states) if state not in seen)

    driver = Driver(box, story)
    driver.listeners.append(look)
    for _ in driver.steps(every=timedelta(seconds=0.2)):
        look()

    assert seen[:3] == [PodState.WAITING, PodState.STARTING, PodState.RUNNING]
    assert list(scene.workloads) == ["inflate"]


def test_heartbeats_are_nothing_new_to_see() -> None:
    story = bundled("inflate")
    box = a_box(story)
    scene = Scene(box)
    scene.catch_up()

    box.engine.run(until=box.engine.now() + timedelta(minutes=30))

    assert scene.catch_up() is False


def test_the_picture_does_not_change_what_happens() -> None:
    story = bundled("inflate")
    watched, alone = a_box(story), a_box(story)
    scene = Scene(watched)
    steps = Driver(watched, story).steps(every=timedelta(seconds=0.2))

    try:
        while True:
            next(steps)
            scene.catch_up()
            scene.machines()
    except StopIteration as stop:
        report = stop.value

    assert report == Driver(alone, story).run()
