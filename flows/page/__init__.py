"""The page of `longform serve`: a part to look at versions, and a part to work on annotation tasks.

`application.py` puts both together; `rendering.py` makes HTML of templates; `work/` and `look/` are the parts.
"""
