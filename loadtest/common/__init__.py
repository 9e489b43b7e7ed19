"""What the load-test programs share."""
