"""What another policy would have done on a log: estimates with intervals, without playing it."""
