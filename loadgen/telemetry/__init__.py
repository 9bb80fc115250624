"""What is sampled beside the requests, on the clock of the run."""
