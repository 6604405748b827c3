"""Corpora to retrieve evidence from: documents as tasks/sources/web/documents.py reads them, cut into windows.

A local corpus and a file of pages in place of a web search have the same format.
"""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.at_most import Sizes
from longform.engine.stage import AtMost, StageContext, stage
from schemas.expertqa import DOCUMENTS
from tasks.sources.files.sizes import most_bytes, records_at_most
from tasks.sources.web.documents import Document as Document
from tasks.sources.web.documents import document_of as document_of
from tasks.sources.web.documents import documents
from tasks.sources.web.documents import open_corpora as open_corpora
from tasks.text.windows import check_tokenizer, check_windows, windows

LEAST = '{"url":"a","text":"a"}'


def passages_of(document: Document, *, tokenizer: str, size: int, overlap: int) -> Iterator[Row]:
    """The document's windows as rows of DOCUMENTS, in order; windows that hold only white space are left out.

    `size` and `overlap` are in tokens of `tokenizer`. A row's text has no white space at its ends, and `start` is
    where the text begins in the document. UsageError for a bad `size`, `overlap` or `tokenizer`.
    """
    name = f"d_{fingerprint([document.url, document.text])}"
    for number, (start, end) in enumerate(windows(document.text, tokenizer=tokenizer, size=size, overlap=overlap)):
        text = document.text[start:end].lstrip()
        if text:
            begins = end - len(text)
            yield {**document._asdict(), "passage_id": f"{name}#{number}", "text": text.rstrip(), "start": begins}


def _windows_at_most(of: Sizes) -> float:
    """Upper bound of the number of windows: one a record, and one for each `size - overlap` bytes of the files."""
    return records_at_most(of["files"], len(LEAST) + 1) + of.bytes / float(of["size"] - of["overlap"])


@stage(DOCUMENTS, revision=1, at_most=AtMost(bytes=most_bytes("files"), rows=_windows_at_most))
def read_corpus(
    context: StageContext, files: Shard, *, tokenizer: str, size: int, overlap: int
) -> Iterator[Row | Rejected]:
    """Windows of the documents of a local corpus, in the order of the file; a Rejected for ill-formed and repeated
    documents.

    `size` and `overlap` are in tokens of `tokenizer`. UsageError if these do not fit together, or there is no such
    tokenizer; SourceError for a damaged file.
    """
    yield from _read(context, files, tokenizer, size, overlap)


@stage(DOCUMENTS, revision=1, at_most=AtMost(bytes=most_bytes("files"), rows=_windows_at_most))
def read_pages(
    context: StageContext, files: Shard, *, tokenizer: str, size: int, overlap: int
) -> Iterator[Row | Rejected]:
    """Windows of the pages that replace a web search, in the order of the file; a Rejected for ill-formed and repeated
    pages.

    `size` and `overlap` are in tokens of `tokenizer`. UsageError if these do not fit together, or there is no such
    tokenizer; SourceError for a damaged file.
    """
    yield from _read(context, files, tokenizer, size, overlap)


def _read(context: StageContext, files: Shard, tokenizer: str, size: int, overlap: int) -> Iterator[Row | Rejected]:
    """Windows of the documents of a file, and its Rejected. UsageError for a bad `size`, `overlap` or `tokenizer`."""
    check_windows(size, overlap)
    check_tokenizer(tokenizer)
    for document in documents(context, files):
        if isinstance(document, Rejected):
            yield document
        else:
            yield from passages_of(document, tokenizer=tokenizer, size=size, overlap=overlap)
