"""The live page of the service: what the models do now, in a browser."""
