"""Running a plan on a GPU, its state fed back."""
