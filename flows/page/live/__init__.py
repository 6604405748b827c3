"""Live sessions of KIWI in the part Work: a reader has a model revise an answer, turn by turn, and rates each turn.

`study` is what is offered: the questions of a built version with their first answers. `writing` asks the models through
the model layer. `sessions` keeps sessions and turns in the database of the part Work, committed at each step, and
writes finished ones into the home, where the next build of kiwi takes them.
"""
