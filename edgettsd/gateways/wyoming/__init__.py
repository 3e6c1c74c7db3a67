"""Home Assistant's protocol for voice services (Wyoming), over TCP."""
