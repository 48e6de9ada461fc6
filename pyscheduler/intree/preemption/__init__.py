"""What DefaultPreemption is made of: victims, disruption budgets, and Go's sort, whose order of equals matters."""
