"""What the service has seen go by: remembered within bounds, told as it happens, and shown on the page."""
