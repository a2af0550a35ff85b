"""The speed of mutangent against its peers: ``python -m benchmarks`` (see README.md beside this file)."""
