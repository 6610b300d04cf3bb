"""The client of the service: requests and replies as data (`protocol`), and httpx with retries (`client`)."""
