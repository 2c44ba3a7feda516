"""Spans for OpenTelemetry, from the submission of a job on: a trace a batch, in which no row and no text is named."""
