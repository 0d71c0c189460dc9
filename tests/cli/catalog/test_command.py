"""``dovetail catalog`` on the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.catalog.command import catalog
from dovetail.codec.catalog.instance_types import encode_catalog
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import CatalogError, InvalidInputError
from tests.support.aws.credentials import NO_CREDENTIALS


def run(*arguments: str, env: dict[str, str | None] | None = None) -> Result:
    return CliRunner(env=env).invoke(catalog, arguments)


def shown(*arguments: str) -> str:
    result = run("show", *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_type_is_shown_with_resources_labels_and_prices_per_zone() -> None:
    page = shown("m5.xlarge")

    assert "memory                      15155Mi     993Mi      14162Mi" in page
    assert "karpenter.k8s.aws/instance-network-bandwidth                1250" in page
    assert "us-east-1a (use1-az6)  0.1920" in page
    assert "us-east-1e (use1-az3)  -" in page


def test_every_output_names_the_sources_of_types_and_prices() -> None:
    assert "Prices: AWS list prices (cloud-cost-mcp 1.3.8), 2026-01-20; spot" in shown("m5.xlarge")
    assert "Prices: AWS list prices (cloud-cost-mcp 1.3.8), 2026-01-20; spot" in shown("m5")

    answer = json.loads(shown("m5.xlarge", "-o", "json"))

    assert answer["prices"]["date"] == "2026-01-20"
    assert answer["catalog"]["recorded"] == bundled_catalog().recorded


def test_without_names_every_type_of_the_region_has_a_line() -> None:
    lines = shown("--region", "sa-east-1").splitlines()

    assert lines[0].split()[:3] == ["TYPE", "CPU", "MEMORY"]
    assert len(lines) == len(bundled_catalog().instance_types_in("sa-east-1")) + 3


def test_a_family_selects_its_types() -> None:
    answer = json.loads(shown("t4g", "-o", "json"))

    assert {entry["name"].partition(".")[0] for entry in answer["types"]} == {"t4g"}
    assert len(answer["types"]) == 7


def test_json_has_kubernetes_quantities_and_null_for_a_missing_price() -> None:
    (only,) = json.loads(shown("m5.xlarge", "-o", "json"))["types"]

    assert only["allocatable"]["memory"] == "14162Mi"
    assert only["price_estimated"] is False
    assert {offering["capacity_type"] for offering in only["offerings"]} == {"on-demand", "spot"}


def test_estimated_prices_are_marked() -> None:
    assert "estimated from related types" in shown("m9g.large")
    assert json.loads(shown("m9g.large", "-o", "json"))["types"][0]["price_estimated"] is True


def test_prices_estimated_from_another_region_are_marked() -> None:
    table = shown("m5", "--region", "eu-west-1")
    document = json.loads(shown("m5.large", "--region", "eu-west-1", "-o", "json"))

    assert "0.1070~" in table
    assert "on-demand estimated at 1.115 × us-east-1" in table
    assert document["types"][0]["price_estimated"]
    assert document["prices"]["estimated_from"] == "us-east-1"


def test_given_price_and_catalogue_files_are_used(tmp_path: Path) -> None:
    book = tmp_path / "book.csv"
    book.write_text(
        "instance_type,region,zone_id,on_demand_usd_per_hour,spot_usd_per_hour\n"
        "m5.xlarge,us-east-1,use1-az6,0.1234,0.0567\n"
    )
    recorded = tmp_path / "mine.bin"
    recorded.write_bytes(encode_catalog(bundled_catalog()))

    page = shown("m5.xlarge", "--prices", str(book), "--catalog", str(recorded))

    assert "us-east-1a (use1-az6)  0.1234         0.0567" in page
    assert f"Prices: {book}." in page


def test_a_misspelt_type_is_rejected_with_a_suggestion() -> None:
    failure = run("show", "m5.xlareg", "zzz").exception

    assert isinstance(failure, InvalidInputError)
    assert [str(error) for error in failure.errors] == [
        "m5.xlareg is not an instance type or family; did you mean 'm5.xlarge'?",
        "zzz is not an instance type or family",
    ]


def test_a_type_not_offered_in_the_region_has_its_own_message() -> None:
    failure = run("show", "--region", "sa-east-1", "u7in-32tb.224xlarge").exception

    assert str(failure) == "u7in-32tb.224xlarge is not offered in sa-east-1"


def test_an_unknown_region_is_rejected_with_a_suggestion_or_all_regions() -> None:
    near, far = (run("show", "--region", name).exception for name in ("us-east1", "mars"))

    assert isinstance(near, InvalidInputError)
    assert "'us-east1' is not in the catalogue; did you mean 'us-east-1'?" in str(near)
    assert "'mars' is not in the catalogue; known are af-south-1, " in str(far)


def test_recording_without_credentials_names_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "catalog.bin"

    result = run(
        *("record", "--region", "us-east-1", "-o", str(file)),
        *("--endpoint-url", "http://127.0.0.1:9"),
        env=NO_CREDENTIALS,
    )

    assert isinstance(result.exception, CatalogError)
    assert "no AWS credentials found; set AWS_PROFILE" in str(result.exception)
    assert not file.exists()


def test_a_profile_that_does_not_exist_is_named() -> None:
    no_such_profile = {**NO_CREDENTIALS, "AWS_PROFILE": "missing"}

    result = run("record", "--region", "us-east-1", "-o", "unused", env=no_such_profile)

    assert str(result.exception) == ("region us-east-1: The config profile (missing) could not be found")


@pytest.mark.parametrize("missing", [["-o", "x"], ["--region", "us-east-1"]])
def test_recording_needs_a_region_and_a_file(missing: list[str]) -> None:
    assert run("record", *missing).exit_code != 0


def test_recording_does_not_start_if_the_file_cannot_be_written(tmp_path: Path) -> None:
    result = run("record", "--region", "us-east-1", "-o", str(tmp_path / "no" / "mine.bin"))

    assert isinstance(result.exception, CatalogError)
    assert f"there is no directory {tmp_path / 'no'}" in str(result.exception)
    assert "us-east-1: zones" not in result.stderr


def test_a_directory_is_rejected_as_catalogue_file(tmp_path: Path) -> None:
    result = run("record", "--region", "us-east-1", "-o", str(tmp_path))

    assert isinstance(result.exception, CatalogError)
    assert "cannot be written there" in str(result.exception)
