"""ResourceClaims of pods: lookup, in-flight allocations, extended resources, and what PreBind writes (KEP-4381)."""
