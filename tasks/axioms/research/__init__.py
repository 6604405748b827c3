"""Hard questions without one right answer: several answers to each, and how they compare (sections 4.3, B.1, D, E)."""
