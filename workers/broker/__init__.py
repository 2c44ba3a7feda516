"""The doorbell between the dispatcher and the workers, and the one door to celery, kombu and redis."""
