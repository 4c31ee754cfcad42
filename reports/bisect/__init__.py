"""Finds the commit that changed a kernel's time: builds first, then as few A/B pairs as the answer needs."""
