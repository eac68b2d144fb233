"""What is promised about speed, measured: ``python -m benchmarks``. One module per benchmark, each with ``bench``."""

BENCHES = (
    "echo_http",
    "echo_ws",
    "atari",
    "decode",
    "cold_start",
    "standby",
    "pool_echo",
    "pool_atari",
    "sessions",
    "server_start",
    "install",
    "imports",
)
