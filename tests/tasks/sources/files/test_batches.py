import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tasks.sources.files.batches import batch_of, text_array

TEXTS = st.lists(st.none() | st.text(st.characters(codec="utf-8")), max_size=20)


@given(TEXTS)
def test_an_array_of_texts_is_arrow_s_own(values: list[str | None]):
    made = text_array(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.string()))
    assert made.null_count == values.count(None)


def test_rows_become_a_batch_in_the_order_of_the_schema():
    schema = pa.schema([("name", pa.string()), ("numbers", pa.list_(pa.int32()))])
    rows = [("é", [1, None]), (None, []), ("tea", [3])]
    batch = batch_of(rows, schema)
    batch.validate(full=True)
    assert batch.to_pylist() == [{"name": name, "numbers": numbers} for name, numbers in rows]
