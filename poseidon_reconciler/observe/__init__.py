"""What others see of a reconciler that runs."""
