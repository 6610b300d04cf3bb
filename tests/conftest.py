"""Settings that all tests share."""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("DELAYTRON_DATA", str(BESIDE))
REAL_DATA = Path(os.environ.get("DELAYTRON_DATA", "absent"))

settings.register_profile(
    "ours",
    deadline=None,  # the first example compiles
    max_examples=8 if os.environ.get("CI") else 60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("ours")
