"""HTTPS endpoints: health, metrics, dumps and profiles, with authentication and authorization."""
