"""Pages about jobs: HTML that stands by itself, with plots drawn here and texts that are always escaped."""
