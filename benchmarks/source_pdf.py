"""PDFs in a .zip, read without a server: what the benchmark generates, reads with our stage, and reads bare."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

from benchmarks.source_tei import HEADS, WORDS

PAGES_LEFT_RIGHT = ((60, 300), (315, 555))
VARIANTS = 24
NOISE_PIXELS = 180


def generate(folder: Path, megabytes: float) -> Path:
    """A .zip of papers of about 120 kB and 8 pages in two columns, with a picture each; few originals, each marked."""
    path = folder / f"pdf-{megabytes:g}.zip"
    draw, written, number = random.Random(1), 0, 0
    originals = [_paper(draw) for _ in range(VARIANTS)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        while written < megabytes * 1_000_000:
            content = originals[number % VARIANTS] + b"%% %d\n" % number
            archive.writestr(f"papers/{number:07}.pdf", content)
            written, number = written + len(content), number + 1
    return path


def ours(path: Path, home: Path) -> int:
    """The stage read_pdfs with PDFium in a home of its own; the PDFs accounted for."""
    from benchmarks.building import accounted, building
    from longform.artifacts.store import Digests
    from tasks.sources.files.bundles import open_bundles
    from tasks.sources.papers.pdf.pdfium import ENDINGS, FILES_PER_BUNDLE, Pdfium, read_pdfs
    from tasks.sources.papers.tei import GROUP

    digest = Digests(home)
    sources = open_bundles([path], group=GROUP, endings=ENDINGS, digest=digest, mean=FILES_PER_BUNDLE)
    with building(home) as build:
        read_pdfs(build, sources, parser=Pdfium())
    return accounted(build)


def bare(path: Path) -> int:
    """The text of every page of every PDF, nothing else; how many PDFs there were."""
    import pypdfium2

    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            document = pypdfium2.PdfDocument(archive.read(info))
            for page in document:
                page.get_textpage().get_text_range()
            document.close()
        return len(archive.infolist())


def _paper(draw: random.Random) -> bytes:
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out, pagesize=(612, 792), invariant=1)
    for number, head in enumerate(HEADS, start=1):
        for left, _ in PAGES_LEFT_RIGHT:
            _column(canvas, draw, left, f"{number} {head}" if left < 100 else "")
        if number == 1:
            canvas.drawImage(ImageReader(_noise(draw)), 400, 40, 60, 60)
        canvas.setFont("Times-Roman", 9)
        canvas.drawString(300, 25, str(number))
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def _column(canvas: object, draw: random.Random, left: float, head: str) -> None:
    text = canvas.beginText(left, 740)  # type: ignore[attr-defined]
    if head:
        text.setFont("Times-Bold", 12)
        text.textLine(head)
    text.setFont("Times-Roman", 10)
    text.setLeading(12)
    for line in range(50):
        text.textLine(("   " if line % 8 == 0 else "") + " ".join(draw.choices(WORDS, k=9)))
    canvas.drawText(text)  # type: ignore[attr-defined]


def _noise(draw: random.Random) -> io.BytesIO:
    """A picture that does not pack, as photographs are."""
    from PIL import Image

    out = io.BytesIO()
    Image.frombytes("RGB", (NOISE_PIXELS, NOISE_PIXELS), draw.randbytes(3 * NOISE_PIXELS**2)).save(out, "PNG")
    return out
