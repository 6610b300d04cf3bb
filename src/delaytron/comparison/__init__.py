"""All learners on the same data, each tuned on other seeds than those reported."""
