"""One profile for every law: the same examples in every run, no deadline, few enough to stay quick."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "dkdist",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("dkdist")
