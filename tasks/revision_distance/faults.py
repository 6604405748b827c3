"""What makes lists of edits no measure of the drafts of a system, and how often that may be.

unusable   the editor's reply is no list of edits
silent     no edit has an effect, although draft and reference differ, or there is no reference
unplaced   more than half of the edits, of those that would change words, have no place in the draft
wholesale  the edits replace so much of the draft that they count as the alignment's edits
padded     more than half of the edits have no effect, or repeat one before them
invalid    the edits do not give the words of the reference
"""

CEILINGS = {"unusable": 0.1, "silent": 0.1, "unplaced": 0.1, "wholesale": 0.1, "padded": 0.1, "invalid": 0.5}
TOLD = {
    "unusable": "have no usable list of edits",
    "silent": "have no edit with an effect, although nothing says that they need none",
    "unplaced": "have more edits without a place in them than others",
    "wholesale": "are replaced wholesale",
    "padded": "have more edits without effect or twice than others",
    "invalid": "do not become their references by their edits",
}
