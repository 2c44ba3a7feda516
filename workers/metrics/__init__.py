"""What the processes of a fleet tell Prometheus: numbers by state and kind, never a name or a text of a job."""
