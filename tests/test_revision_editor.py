"""The offline editor: what its edits are, how many, and that they make the draft its reference.

`applied` is the rule of application written a second time, for texts that are found to the letter.
"""
