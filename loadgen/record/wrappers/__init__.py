"""What wraps log lines on their way: taken off first, then the inner line is read."""
