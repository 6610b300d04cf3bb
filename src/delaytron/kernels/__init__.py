"""The learning path: lanes, linear algebra, exploration, and the one delay loop."""
