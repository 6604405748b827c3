"""The parts of the method of the axioms dataset, each with its settings; flows/axioms.py puts them together."""
