"""Settings that all tests share."""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"
if REAL_DATA.is_dir():
    os.environ.setdefault("DELAYTRON_DATA", str(REAL_DATA))

settings.register_profile(
    "ours",
    deadline=None,  # the first example compiles
    max_examples=30 if os.environ.get("CI") else 60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("ours")
