"""Names of the users of community question answering sites, as far as attribution needs them."""

import pyarrow as pa

from schemas import column, table

USERS = table(
    "users",
    column("user_id", pa.string(), "<site>/u<upstream id>"),
    column("name", pa.string(), "display name"),
    key="user_id",
)
