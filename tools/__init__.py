"""Development tools of pyscheduler."""
