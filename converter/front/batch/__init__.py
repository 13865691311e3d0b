"""Many models, unattended: a list in YAML, isolated workers, a cache, and reports for a CI job."""
