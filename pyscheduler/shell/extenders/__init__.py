"""HTTP extenders: what goes over the wire, who sends it, and the objects as the API server wrote them."""
