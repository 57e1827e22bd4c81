"""Metrics and traces: for an OpenTelemetry collector, and for a Prometheus that scrapes."""
