"""What `delaytron.client` sends and reads: requests as data, the tries that each may take, and httpx."""
