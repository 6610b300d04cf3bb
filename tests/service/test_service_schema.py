"""Schemathesis over the OpenAPI document: what the document promises is what comes."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS as REGISTRY
from schemathesis.checks import load_all_checks

from services import serving

load_all_checks()
CHECKS = [
    REGISTRY.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
        "unsupported_method",
    )
]


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("described")) as service:
        service.make("m", features=2)
        service.make("hashed", bits=8)
        yield schemathesis.openapi.from_url(f"{service.url}/openapi.json")
        counts = re.findall(r"^delaytron_http_requests_total.* (\d+)$", service.client.get("/metrics").text, re.M)
        assert sum(map(int, counts)) > 300  # requests were sent, and answered


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_replies_conform_to_the_document(case):
    if case.path_parameters and case.path_parameters.get("name"):
        case.path_parameters["name"] = "m" if len(str(case.path_parameters)) % 2 else "hashed"
    case.call_and_validate(checks=CHECKS)
