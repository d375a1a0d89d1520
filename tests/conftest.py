"""What all tests share: examples that hypothesis generates are the same in every run."""

import hypothesis

hypothesis.settings.register_profile(
    "repeatable",
    derandomize=True,  # a test that fails once fails every time
    deadline=None,  # no timing is ever asserted
    database=None,
    max_examples=60,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.differing_executors],
)
hypothesis.settings.load_profile("repeatable")
