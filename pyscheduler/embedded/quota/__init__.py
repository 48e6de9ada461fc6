"""Resource quotas: what objects use, and the admission and status that follow from it."""
