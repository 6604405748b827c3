"""Table schema of papers with their sections, paragraphs, citations and bibliography, the same for all sources.

All offsets count Unicode code points: `text[start:end]` is the span.
"""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

SECTION = pa.struct(
    [
        column("number", pa.string(), "printed number of the head, without a trailing dot", null=True),
        column("head", pa.string(), "head as printed, without its number; null before the first head", null=True),
        column("role", pa.string(), "introduction or related_work, sub-sections included; else null", null=True),
        column("start", pa.int32(), "offset into papers.text: the head, where there is one, else the first paragraph"),
        column("end", pa.int32(), "offset into papers.text: end of the last paragraph, sub-sections not included"),
    ]
)

CITATION = pa.struct(
    [
        column("start", pa.int32(), "offset, inclusive"),
        column("end", pa.int32(), "offset, exclusive"),
        column("ref_id", pa.string(), "entry of the bibliography; null where the source does not say", null=True),
    ]
)

PARAGRAPH = pa.struct(
    [
        column("section", pa.int32(), "position in papers.sections; null for text outside every section", null=True),
        column("start", pa.int32(), "offset into papers.text"),
        column("end", pa.int32(), "offset into papers.text"),
        column("citations", pa.list_(CITATION), "offsets into papers.text, in their order"),
    ]
)

REFERENCE = pa.struct(
    [
        column("ref_id", pa.string(), "as citations name it"),
        column("paper_id", pa.string(), "the cited paper, where the source links it: s2/<corpus id>", null=True),
        column("title", pa.string(), "as parsed", null=True),
        column("authors", pa.list_(pa.string()), "as parsed; may be empty"),
        column("year", pa.int32(), "as parsed", null=True),
        column("venue", pa.string(), "as parsed", null=True),
        column("doi", pa.string(), "lower case, without https://doi.org/", null=True),
        column("raw", pa.string(), "the reference as printed, where the source keeps it", null=True),
    ]
)

PAPERS = table(
    "papers",
    column(
        "paper_id", pa.string(), "<group>/<upstream id>: s2/<corpus id>, openreview/<note id>, acl/<id>, file/<hash>"
    ),
    column("source", pa.string(), "form of the record: s2orc, s2orc_v2, s2orc_2020, s2orc_2019, doc2json, tei, pdf"),
    column("parser", pa.string(), "what made text of the PDF: s2orc, doc2json, grobid <version>, pdfium <version>"),
    column("title", pa.string(), "main title", null=True),
    column("authors", pa.list_(pa.string()), "full names in order; may be empty"),
    column("author_ids", pa.list_(pa.string()), "ids of these authors, where the source has them; may be empty"),
    column("year", pa.int32(), "year of publication", null=True),
    column("venue", pa.string(), "as the source names it", null=True),
    column("abstract", pa.string(), "abstract, its paragraphs separated by a blank line", null=True),
    column("text", pa.string(), "the body, in which all offsets count; may be empty"),
    column("sections", pa.list_(SECTION), "in the order of the text; flat"),
    column("paragraphs", pa.list_(PARAGRAPH), "in the order of the text; they do not overlap"),
    column("bibliography", pa.list_(REFERENCE), "in its order"),
    column("corpus_id", pa.int64(), "Semantic Scholar's", null=True),
    column("doi", pa.string(), "lower case, without https://doi.org/", null=True),
    column("arxiv_id", pa.string(), "without version", null=True),
    column("acl_id", pa.string(), "ACL Anthology's", null=True),
    column("note_id", pa.string(), "OpenReview's note, where the file was fetched from there", null=True),
    column("decision", pa.string(), "of the venue, as in submissions.decision; null where it is not known", null=True),
    column("file", pa.string(), "name of the file that was read, without folders", null=True),
    column("file_sha256", pa.string(), "SHA-256 of that file, unpacked", null=True),
    column("pdf_sha", pa.string(), "hash of the PDF as the source names it (SHA-1, MD5 or SHA-256)", null=True),
    column("licence", pa.string(), "of the paper, as the source says; null where it does not", null=True),
    column("url", pa.string(), "permalink", null=True),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    column("notes", pa.list_(pa.string()), "problems found and repairs done, as short fixed phrases; may be empty"),
    key="paper_id",
    level=1,
)

FROM_SUBMISSION = (
    column("venue", pa.string(), "of the paper, as the source names it", null=True),
    column("note_id", pa.string(), "OpenReview's note, where the paper was fetched from there", null=True),
    column("decision", pa.string(), "of the venue, as in submissions.decision; null where it is not known", null=True),
    column("file", pa.string(), "name of the file that the paper was read from, without folders", null=True),
)  # what the tables that are made of papers also say of them

PARAGRAPHS = table(
    "paragraphs",
    column("paragraph_id", pa.string(), "<paper_id>#<position>"),
    column("paper_id", pa.string(), "parent: papers.paper_id"),
    column("number", pa.string(), "printed number of the section", null=True),
    column("head", pa.string(), "head of the section", null=True),
    column("role", pa.string(), "introduction or related_work; else null", null=True),
    column("start", pa.int32(), "offset into papers.text"),
    column("end", pa.int32(), "offset into papers.text"),
    column("text", pa.string(), "papers.text[start:end]"),
    column("citations", pa.list_(CITATION), "offsets into this row's text"),
    column("cited", pa.list_(pa.string()), "paper ids that its citations link to, each once, in their order"),
    *FROM_SUBMISSION,
    column("licence", pa.string(), "of the paper; null where it is not known", null=True),
    column("url", pa.string(), "permalink of the paper", null=True),
    key="paragraph_id",
    cut="paper_id",
    level=1,
)

RELATED = table(
    "related",
    column("related_id", pa.string(), "<paper_id>#<position>"),
    column("paper_id", pa.string(), "parent: papers.paper_id"),
    column("title", pa.string(), "title of the paper", null=True),
    column("abstract", pa.string(), "abstract of the paper", null=True),
    column("head", pa.string(), "heading of the section", null=True),
    column("text", pa.string(), "the paragraph"),
    column(
        "references",
        pa.list_(
            pa.struct(
                [
                    column("ref_id", pa.string(), "entry of the bibliography"),
                    column("paper_id", pa.string(), "id of the cited paper, where the source links it", null=True),
                    column("title", pa.string(), "as parsed", null=True),
                    column("year", pa.int32(), "as parsed", null=True),
                ]
            )
        ),
        "bibliography entries that the paragraph cites, each once, in order",
    ),
    *FROM_SUBMISSION,
    column("licence", pa.string(), "licence of the paper", null=True),
    column("url", pa.string(), "permalink of the paper", null=True),
    column("retrieved_at", MOMENT, "when the source was fetched, where known", null=True),
    key="related_id",
    cut="paper_id",
)

METADATA = table(
    "metadata",
    column("paper_id", pa.string(), "<group>/<upstream id>"),
    column("corpus_id", pa.int64(), "Semantic Scholar's", null=True),
    column("title", pa.string(), "title", null=True),
    column("authors", pa.list_(pa.string()), "full names in order"),
    column("year", pa.int32(), "year of publication", null=True),
    column("venue", pa.string(), "as the source names it", null=True),
    column("abstract", pa.string(), "null where the source withholds it", null=True),
    column("doi", pa.string(), "lower case", null=True),
    column("arxiv_id", pa.string(), "without version", null=True),
    column("acl_id", pa.string(), "ACL Anthology's", null=True),
    column("licence", pa.string(), "of the paper, as the source says", null=True),
    column("url", pa.string(), "permalink", null=True),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    key="paper_id",
)

REPEATED = table(
    "repeated",
    column("row_id", pa.string(), "<part>#<position>: the row of papers for which another row of its paper stands"),
    column("kept_id", pa.string(), "paper_id of both rows"),
    column("kept", pa.string(), "name of the file of the row that stays", null=True),
    key="row_id",
    cut="kept_id",
)

CITED = table(
    "cited",
    column("paragraph_id", pa.string(), "parent: paragraphs.paragraph_id"),
    column("paper_id", pa.string(), "the citing paper"),
    column("cited_id", pa.string(), "the cited paper"),
    column("title", pa.string(), "of the cited paper; null where it is not at hand", null=True),
    column("abstract", pa.string(), "of the cited paper; null where it is not at hand", null=True),
    column("at_hand", pa.bool_(), "whether the cited paper is among the papers or metadata that were read"),
    key="paragraph_id",
    cut="paper_id",
)

SKETCHES = table(
    "sketches",
    column("paper_id", pa.string(), "of the paper, its metadata or its submission"),
    column("words", pa.list_(pa.string()), "of the title, folded; numbers are words of their own; may be empty"),
    column("surnames", pa.list_(pa.string()), "of the authors, folded, each once, sorted; empty where anonymous"),
    column("year", pa.int32(), "of publication, or of the conference", null=True),
    column("doi", pa.string(), "lower case, as the source has it", null=True),
    column("arxiv_id", pa.string(), "without version; also from an arXiv DOI", null=True),
    column("acl_id", pa.string(), "ACL Anthology's, lower case; also from its DOI", null=True),
    column("corpus_id", pa.int64(), "Semantic Scholar's", null=True),
    column("pdf_sha", pa.string(), "hash of the PDF, lower case", null=True),
    column("abstract_size", pa.int32(), "number of different word triples of the abstract"),
    column("abstract", pa.list_(pa.uint64()), "the smallest hashes of these triples, sorted"),
    column("text_size", pa.int32(), "number of different word triples of the body; 0 where there is no text"),
    column("text", pa.list_(pa.uint64()), "the smallest hashes of these triples, sorted"),
    key="paper_id",
)

DUPLICATES = table(
    "duplicates",
    column("pair_id", pa.string(), "<first_id>=<second_id>"),
    column("first_id", pa.string(), "paper_id (of a submission its submission_id), the smaller of the two"),
    column("second_id", pa.string(), "paper_id (of a submission its submission_id)"),
    column("verdict", pa.string(), "same: versions of one paper; doubtful: something speaks for it, something against"),
    column("reason", pa.string(), "why doubtful, as a short fixed phrase; null for same", null=True),
    column(
        "found_by",
        pa.list_(pa.string()),
        "what is the same, in this order: doi, arxiv_id, acl_id, corpus_id, file (hash of the PDF), title, text",
    ),
    column(
        "title_similarity", pa.float32(), "Jaccard similarity of the titles' words; null without a title", null=True
    ),
    column("abstract_similarity", pa.float32(), "of the abstracts' word triples: share of the smaller", null=True),
    column("text_similarity", pa.float32(), "the same of the bodies, estimated where they are long", null=True),
    column("shared_authors", pa.int32(), "number of surnames that both have; null where one has no authors", null=True),
    column("group_id", pa.string(), "smallest id of all versions that pairs link; null for doubtful", null=True),
    key="pair_id",
    cut="first_id",
)
