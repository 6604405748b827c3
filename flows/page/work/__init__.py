"""The part Work: accounts, and annotation tasks that people do under them.

What a further kind of work needs of it:

    from flows.page.rendering import render                      # HTML of a template under templates/work/
    from flows.page.work.access import Account, current_account, administrator, posted
    from flows.page.work.database import Database, database      # of a request: `database(request)`
    from flows.page.work.tables import METADATA                  # tables declared on it are made at start

    @router.post("/work/letters/{letter_id}")
    async def save(request: Request, letter_id: str, account: Account = Depends(current_account)) -> Response:
        fields = await posted(request, account)                  # checked: size, CSRF token; the origin is already
        async with database(request).writing() as connection:    # one transaction, committed at its end
            ...

Its module with tables and routes is imported, and its router included, in `flows/page/application.py`; what it offers
on the page /work is added to `app.state.further` there.
"""
