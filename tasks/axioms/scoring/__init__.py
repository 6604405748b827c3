"""Scorers of answers, f(question, answer[, evidence]), and how well they rank and prefer."""
